//! Kringle.
fn main() {}
