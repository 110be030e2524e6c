//! TLS 1.3 with raw public keys.
