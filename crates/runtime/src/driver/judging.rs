//! Who may talk to this node, and what it says about itself: greetings are written and judged here.

use std::net::SocketAddr;

use kringle_core::id::NodeId;
use kringle_core::wire::{OLDEST, VERSION};

use super::Driver;
use super::effects::guarded;
use crate::clock::unix_ms;
use crate::home::{HomeError, Membership};
use crate::identity::PublicKey;
use crate::identity::cluster::{Certificate, Cluster};
use crate::identity::token::{Token, TokenError};
use crate::transport::hello::{Hello, Purpose, Refused, Why};

impl Driver {
    /// What this node says about itself to a peer.
    pub(super) fn hello(&self, purpose: Purpose, to: NodeId) -> Hello {
        let me = &self.me;
        Hello {
            version: VERSION,
            oldest: OLDEST,
            purpose,
            cluster: me.cluster_id(),
            cluster_name: self.about.cluster.clone(),
            protocol: self.protocol(),
            adopts: self.adopts(),
            copies_version: me.copies_version,
            incarnation: me.incarnation,
            instance: me.instance,
            endpoints: self.about.endpoints.clone(),
            region: self.about.region.clone(),
            certificate: me.certificate.map(|certificate| certificate.encode()),
            token: match &me.certificate {
                // It is good for one node only; nobody else gets to see it.
                None => me.token.as_ref().filter(|token| token.issuer() == to).map(Token::text),
                Some(_) => None,
            },
            credentials: me
                .credentials
                .as_ref()
                .and_then(|credentials| guarded(|| credentials.show(me.identity.id(), to))),
            granted: None,
            lineage: self.lineage(),
            records: self.record_count(),
            yields: self.offers_to_yield(),
            relay: None,
        }
    }

    /// Decides whether to let somebody in whose key is proved. Returns a certificate if it brought a good token.
    pub(super) fn judge(&mut self, hello: &Hello, key: &PublicKey) -> Result<Option<Certificate>, Refused> {
        self.judge_plain(hello, key.id())?;
        // Before a token is used up.
        self.judge_protocol(hello)?;
        self.judge_credentials(hello, key.id())?;
        let granted = match &self.me.cluster {
            Some(cluster) if cluster.is_open() => None,
            _ => match self.check_certificate(hello, key) {
                Ok(()) => None,
                Err(why) if hello.token.is_none() => return Err(why),
                Err(_) => Some(self.redeem(hello, key)?),
            },
        };
        // Last: strangers learn nothing about the store.
        self.judge_lineage(hello, key.id())?;
        Ok(granted)
    }

    /// Decides whether the node that was dialled is one to talk to. `offered`: whether this node said that it would drop
    /// its lineage, and which settings it said it would change.
    pub(super) fn judge_answer(
        &mut self,
        hello: &Hello,
        key: &PublicKey,
        offered: (bool, u64),
    ) -> Result<(), Refused> {
        self.judge_plain(hello, key.id())?;
        let membership = |why: String| Refused::new(Why::Membership, why);
        if self.me.cluster.is_none() {
            // The token names the cluster, and the cluster's name and key have to fit it: from here on we know its key.
            let shown = hello.certificate.as_deref().map(Certificate::decode);
            let Some(Ok(shown)) = shown else {
                return Err(membership("no certificate of the cluster".into()));
            };
            let cluster = Cluster::member(&self.about.cluster, shown.cluster_key);
            let cluster = cluster.map_err(|error| membership(error.to_string()))?;
            if cluster.id() != self.me.cluster_id() {
                return Err(membership("the token is for another cluster than this name".into()));
            }
            self.me.cluster = Some(cluster);
        }
        if !self.me.cluster.as_ref().is_some_and(Cluster::is_open) {
            self.check_certificate(hello, key)?;
        }
        self.judge_credentials(hello, key.id())?;
        if let Some(granted) = &hello.granted {
            let granted = Certificate::decode(granted).map_err(|error| membership(error.to_string()))?;
            let mine = self.me.identity.public();
            let good = self.me.cluster.as_ref().is_some_and(|cluster| cluster.check(&granted, &mine).is_ok());
            if !good {
                return Err(membership("the certificate it made for us is not good".into()));
            }
            self.me.certificate = Some(granted);
            self.save_membership();
        }
        self.judge_protocol_answer(hello, offered.1)?;
        self.judge_lineage_answer(hello, key.id(), offered.0)
    }

    pub(super) fn judge_plain(&self, hello: &Hello, peer: NodeId) -> Result<(), Refused> {
        if self.node.store().is_some_and(|store| store.retired().any(|id| id == peer)) {
            return Err(Refused::new(Why::Retired, super::duties::RETIRED));
        }
        if hello.oldest > VERSION || hello.version < OLDEST {
            return Err(Refused::new(
                Why::Version,
                format!(
                    "speaks versions {} to {}, this node {OLDEST} to {VERSION}",
                    hello.oldest, hello.version
                ),
            ));
        }
        if hello.cluster != self.me.cluster_id() {
            let (ours, theirs) = (&self.about.cluster, &hello.cluster_name);
            let text = match ours == theirs {
                true => format!("both are called {ours}, but the secrets differ (KR0421)"),
                false => format!("this node belongs to cluster {ours}, not to {theirs} (KR0421)"),
            };
            return Err(Refused::new(Why::Cluster, text));
        }
        let usable = |to: &SocketAddr| to.port() != 0 && !to.ip().is_unspecified();
        if hello.endpoints.is_empty() || !hello.endpoints.iter().all(usable) {
            return Err(Refused::new(Why::Other, "it names no address at which it can be reached"));
        }
        let Some((incarnation, instance)) = self.lives.get(&peer).copied() else { return Ok(()) };
        let later = || Some((incarnation, self.book.find(peer).unwrap_or_default().to_vec()));
        if hello.incarnation < incarnation {
            let text =
                format!("a later life of this node is known: {incarnation}, not {}", hello.incarnation);
            return Err(Refused { why: Why::Superseded, text, later: later() });
        }
        let here = self.links.get(&peer).is_some_and(|links| {
            links
                .all()
                .any(|link| link.is_open() && link.instance == instance && link.incarnation == incarnation)
        });
        if hello.incarnation == incarnation && hello.instance != instance && here {
            let text = "the same identity is connected from another process".into();
            return Err(Refused { why: Why::Twin, text, later: later() });
        }
        Ok(())
    }

    pub(super) fn check_certificate(&self, hello: &Hello, key: &PublicKey) -> Result<(), Refused> {
        let refuse = |why: String| Refused::new(Why::Membership, why);
        let Some(cluster) = &self.me.cluster else { return Err(refuse("this node is no member yet".into())) };
        let Some(shown) = &hello.certificate else {
            return Err(refuse(format!(
                "cluster {} is private: bring a join token (kringle token new, on a member)",
                cluster.name()
            )));
        };
        let certificate = Certificate::decode(shown).map_err(|error| refuse(error.to_string()))?;
        cluster.check(&certificate, key).map_err(|error| refuse(error.to_string()))
    }

    pub(super) fn redeem(&mut self, hello: &Hello, key: &PublicKey) -> Result<Certificate, Refused> {
        let refuse = |why: String| Refused::new(Why::Membership, why);
        let token: Token = hello
            .token
            .as_deref()
            .unwrap_or_default()
            .parse()
            .map_err(|error: TokenError| refuse(error.to_string()))?;
        let cluster = self.me.cluster.as_ref().filter(|cluster| cluster.can_certify());
        let Some(cluster) = cluster else { return Err(refuse("this node can not admit others".into())) };
        self.me.tokens.redeem(&token, unix_ms() / 1000).map_err(|error| refuse(error.to_string()))?;
        cluster.certify(key).ok_or_else(|| refuse("this node can not admit others".into()))
    }

    pub(super) fn judge_credentials(&self, hello: &Hello, peer: NodeId) -> Result<(), Refused> {
        let Some(credentials) = &self.me.credentials else { return Ok(()) };
        let shown = hello.credentials.as_deref().unwrap_or_default();
        let checked = guarded(|| credentials.check(self.me.identity.id(), peer, shown));
        checked.unwrap_or_else(|| Err("the check panicked".into())).map_err(|why| {
            // What is wrong with them is not the peer's business.
            tracing::warn!(%peer, why, "credentials are not good");
            Refused::new(Why::Credentials, "the credentials are not good here")
        })
    }

    pub(super) fn save_membership(&mut self) {
        if let Err(error) = self.write_membership() {
            tracing::error!(%error, "cannot keep the membership");
        }
    }

    pub(super) fn write_membership(&self) -> Result<(), HomeError> {
        let (Some(home), Some(cluster)) = (&self.home, &self.me.cluster) else { return Ok(()) };
        let membership = Membership {
            cluster: cluster.clone(),
            certificate: self.me.certificate,
            had_peers: self.had_peers,
            protocol: self.protocol(),
            copies_version: self.me.copies_version,
            lineage: self.lineage(),
            discarded: self.discarded,
        };
        home.set_cluster(&membership)
    }
}
