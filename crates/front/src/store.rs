//! The store behind a port.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use kringle_core::store::op::{Action, Answer, Ask, Happened, Trouble};
use kringle_runtime::{Handle, RequestError};

/// What an asked store gives back, later.
pub type Pending<'a> = Pin<Box<dyn Future<Output = Result<Answer, RequestError>> + Send + 'a>>;

/// Something that answers for the store in a node's stead: tests of what clients see need no ring.
pub trait Store: Send + Sync {
    /// Does what is asked, or says within the deadline why not.
    fn ask(&self, ask: Ask, deadline: Duration) -> Pending<'_>;
}

/// Who answers for the store.
#[derive(Clone)]
pub(crate) struct Data {
    pub(crate) node: Handle,
    /// Somebody else, if not the node.
    pub(crate) stand_in: Option<Arc<dyn Store>>,
}

impl Data {
    /// Asks, and sees to it that a read which ended badly does not sound like a write.
    pub(crate) async fn ask(&self, ask: Ask, deadline: Duration) -> Result<Answer, RequestError> {
        let reads = is_read(&ask.action);
        let answer = match &self.stand_in {
            None => self.node.store(ask, deadline).await,
            Some(store) => store.ask(ask, deadline).await,
        };
        let happened = if reads { Happened::No } else { Happened::Unknown };
        answer.map_err(|error| match error {
            RequestError::Timeout => RequestError::Store(Trouble::Timeout { happened }),
            other => other,
        })
    }
}

/// Says whether an action changes nothing.
fn is_read(action: &Action) -> bool {
    matches!(action, Action::Get | Action::Members | Action::Place | Action::Keys { .. })
}
