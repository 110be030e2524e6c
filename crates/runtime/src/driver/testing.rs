//! What tests of the driver need.

use tokio::sync::oneshot;

use super::Driver;
use crate::handle::{Call, Handle};

/// Does something to the driver of a node.
pub(super) async fn enter<T: Send + 'static>(
    node: &Handle,
    work: impl FnOnce(&mut Driver) -> T + Send + 'static,
) -> T {
    let (tell, told) = oneshot::channel();
    let work = Box::new(move |driver: &mut Driver| drop(tell.send(work(driver))));
    assert!(node.shared.calls.send(Call::Enter(work)).await.is_ok());
    told.await.unwrap()
}

/// Runs a test on one thread with a place for local tasks.
pub(super) fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, test);
}
