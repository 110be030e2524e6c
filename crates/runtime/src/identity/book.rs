//! The issuer's book: which join tokens it made, and what became of them.
//!
//! A token is written down before it is handed out and struck out, on disk, before anybody is let in for it. So a
//! crash at any moment can waste a token but never lets two newcomers in with one. A token that is not in the book is
//! refused, however genuine: losing the book makes all tokens void.

use std::collections::BTreeMap;
use std::time::Duration;

use kringle_core::config::ClusterId;
use kringle_core::id::NodeId;
use serde::{Deserialize, Serialize};

use super::token::{Token, TokenError};
use super::{Identity, random, text};
use crate::home::{Home, HomeError, Slot};

/// The most tokens that may wait to be used.
pub const OPEN_TOKENS_MAX: usize = 10_000;
/// The most tokens on record, whatever became of them.
const TOKENS_MAX: usize = 2 * OPEN_TOKENS_MAX;
/// How long an expired token stays on record, so that `list` can show what became of it: a day.
const KEPT_AFTER_EXPIRY_S: u64 = 24 * 60 * 60;

/// The tokens of one issuer.
pub struct Tokens {
    issuer: NodeId,
    cluster: ClusterId,
    /// What MACs are made with; derived from the node's own seed, so no other node can make or judge them.
    key: [u8; 32],
    entries: BTreeMap<[u8; 8], Entry>,
    /// Where the book is kept, or nowhere: then it lives as long as the process.
    slot: Option<Slot>,
}

#[derive(Clone, Copy)]
struct Entry {
    expires: u32,
    state: TokenState,
}

/// What became of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TokenState {
    /// Nobody has used it; it may have expired.
    Open,
    /// Somebody has joined with it.
    Used,
    /// It was taken back.
    Revoked,
}

/// One line of the book, fit to be shown: nobody can join with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TokenInfo {
    /// The name to revoke it by.
    pub id: String,
    /// The second, since 1970, from which on it is worth nothing.
    pub expires: u64,
    /// What became of it.
    pub state: TokenState,
}

impl Tokens {
    /// Makes an empty book that is kept in memory only: a restart makes all its tokens void.
    pub fn in_memory(issuer: &Identity, cluster: ClusterId) -> Tokens {
        let key = blake3::derive_key("kringle v1 join token", issuer.seed());
        Tokens { issuer: issuer.id(), cluster, key, entries: BTreeMap::new(), slot: None }
    }

    /// Opens the book in a data directory; a new one is empty.
    pub fn open(issuer: &Identity, cluster: ClusterId, home: &Home) -> Result<Tokens, HomeError> {
        let mut tokens = Tokens::in_memory(issuer, cluster);
        let slot = home.tokens_slot();
        if let Some(bytes) = slot.read()? {
            tokens.entries = read(&bytes).map_err(|why| slot.damaged(why))?;
        }
        tokens.slot = Some(slot);
        Ok(tokens)
    }

    /// Makes a token that is good from `now` (in seconds since 1970) for `ttl`, and writes it down.
    pub fn issue(&mut self, ttl: Duration, now: u64) -> Result<Token, TokenError> {
        self.forget_old(now);
        let is_open = |entry: &&Entry| entry.state == TokenState::Open && u64::from(entry.expires) > now;
        if self.entries.values().filter(is_open).count() >= OPEN_TOKENS_MAX
            || self.entries.len() >= TOKENS_MAX
        {
            return Err(TokenError::TooMany);
        }
        let nonce = random().map_err(|e| TokenError::Unavailable(e.to_string()))?;
        let expires = u32::try_from(now.saturating_add(ttl.as_secs())).unwrap_or(u32::MAX);
        if self.entries.contains_key(&nonce) {
            // Once in 2^64 draws; overwriting the older entry would make a used token good again.
            return Err(TokenError::Unavailable("the nonce was drawn before".to_owned()));
        }
        self.entries.insert(nonce, Entry { expires, state: TokenState::Open });
        if let Err(error) = self.persist() {
            self.entries.remove(&nonce);
            return Err(error);
        }
        Ok(Token::make(self.issuer, self.cluster, nonce, expires, &self.key))
    }

    /// Strikes a token out. `Ok` means: it was genuine and good, nobody else can use it any more, and that is on disk.
    /// Only then may the caller certify the newcomer. Blocks for as long as the disk needs.
    pub fn redeem(&mut self, token: &Token, now: u64) -> Result<(), TokenError> {
        if token.issuer != self.issuer {
            return Err(TokenError::UnknownIssuer(token.issuer));
        }
        if token.cluster != self.cluster {
            return Err(TokenError::OtherCluster);
        }
        // Before anything is said about the token's fate: strangers get to know nothing by guessing nonces.
        if !token.is_made_with(&self.key) {
            return Err(TokenError::Damaged);
        }
        match self.entries.get(&token.nonce).map(|entry| entry.state) {
            Some(TokenState::Used) => return Err(TokenError::AlreadyUsed),
            Some(TokenState::Revoked) => return Err(TokenError::Revoked),
            _ if token.is_expired(now) => return Err(TokenError::Expired),
            None => return Err(TokenError::NotOnRecord),
            Some(TokenState::Open) => {}
        }
        self.forget_old(now);
        self.mark(token.nonce, TokenState::Used)
    }

    /// Takes the token with this id back. Doing so twice is no error; a used one cannot be taken back.
    pub fn revoke(&mut self, id: &str) -> Result<(), TokenError> {
        let nonce = text::unhex(id).and_then(|bytes| bytes.try_into().ok()).ok_or(TokenError::NotOnRecord)?;
        match self.entries.get(&nonce).ok_or(TokenError::NotOnRecord)?.state {
            TokenState::Used => Err(TokenError::AlreadyUsed),
            TokenState::Revoked => Ok(()),
            TokenState::Open => self.mark(nonce, TokenState::Revoked),
        }
    }

    /// Returns all tokens on record, those that expire first coming first.
    pub fn list(&self) -> Vec<TokenInfo> {
        let info = |(nonce, entry): (&[u8; 8], &Entry)| TokenInfo {
            id: text::hex(nonce),
            expires: entry.expires.into(),
            state: entry.state,
        };
        let mut list: Vec<_> = self.entries.iter().map(info).collect();
        list.sort_by(|a, b| (a.expires, &a.id).cmp(&(b.expires, &b.id)));
        list
    }

    /// Changes the state of an open token, on disk before in the eyes of the caller.
    fn mark(&mut self, nonce: [u8; 8], state: TokenState) -> Result<(), TokenError> {
        let Some(entry) = self.entries.get_mut(&nonce) else { return Err(TokenError::NotOnRecord) };
        let before = std::mem::replace(&mut entry.state, state);
        self.persist().inspect_err(|_| {
            // The disk may hold the new state or the old one. Nobody was let in, so the old one is still true; after
            // a crash the new one at worst wastes the token.
            if let Some(entry) = self.entries.get_mut(&nonce) {
                entry.state = before;
            }
        })
    }

    /// Drops what expired more than a day ago. It needs no writing of its own: the next one does it.
    fn forget_old(&mut self, now: u64) {
        self.entries.retain(|_, entry| u64::from(entry.expires).saturating_add(KEPT_AFTER_EXPIRY_S) > now);
    }

    fn persist(&self) -> Result<(), TokenError> {
        let Some(slot) = &self.slot else { return Ok(()) };
        let line = |(nonce, entry): (&[u8; 8], &Entry)| Line {
            id: text::hex(nonce),
            expires: entry.expires,
            state: entry.state,
        };
        let file = File { tokens: self.entries.iter().map(line).collect() };
        slot.write_json(&file).map_err(|e| TokenError::Unavailable(e.to_string()))
    }
}

/// The book on disk.
#[derive(Serialize, Deserialize)]
struct File {
    tokens: Vec<Line>,
}

#[derive(Serialize, Deserialize)]
struct Line {
    id: String,
    expires: u32,
    state: TokenState,
}

fn read(bytes: &[u8]) -> Result<BTreeMap<[u8; 8], Entry>, String> {
    let file: File = serde_json::from_slice(bytes).map_err(|e| e.to_string())?;
    let entry = |line: Line| {
        let nonce = text::unhex(&line.id).and_then(|bytes| bytes.try_into().ok());
        let nonce = nonce.ok_or_else(|| format!("{:?} is not the id of a token", line.id))?;
        Ok((nonce, Entry { expires: line.expires, state: line.state }))
    };
    file.tokens.into_iter().map(entry).collect()
}

#[cfg(test)]
mod tests;
