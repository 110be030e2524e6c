//! Conversations with a port, byte for byte, over loopback and with real nodes behind it.

mod client;
mod connections;
mod documents;
mod events;
mod fake;
mod messages;
mod refusals;
mod rings;
mod store;
mod walks;
