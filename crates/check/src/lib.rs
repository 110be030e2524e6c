//! Few Kringle nodes, every order: the model checker.
//!
//! A [`plan::Plan`] says which nodes there are and what may go wrong, [`model::Ring`] turns it into a model for
//! stateright: a [`state::State`] of the product's own nodes, with messages in flight, and [`action::Action`]s that
//! can be taken in it. [`explore`] searches, [`schedule`] writes down how a property was broken and makes that as short
//! as it can, [`replay`] drives the simulator through it.
//!
//! No protocol is written here: worlds, actions and properties only.

pub mod action;
pub mod chord;
pub mod explore;
mod fingerprint;
pub mod gate;
pub mod model;
pub mod plan;
mod properties;
pub mod replay;
pub mod rules;
pub mod schedule;
pub mod search;
pub mod state;
pub mod store_rules;
