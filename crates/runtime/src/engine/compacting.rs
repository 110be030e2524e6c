//! Helps the database to compact.
//!
//! It compacts one step per table that it writes. With small tables that is too little: new tables pile up, at thirty of
//! them it lets writes wait for a compaction, and only a write would bring one about (fjall 3.1 with one worker; a second
//! one would turn in circles while the first compacts). So whenever some have piled up, this thread does a step, too.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use fjall::compaction::Leveled;
use lsm_tree::AbstractTree;

use super::disk::Tables;

/// New tables that are too many. The database slows writes down at twenty.
const PILE: usize = 8;
/// How often it looks, and how soon after a step.
const EVERY: Duration = Duration::from_millis(200);
const SOON: Duration = Duration::from_millis(5);

/// The thread, until it is dropped.
pub(super) struct Compacting {
    thread: Option<JoinHandle<()>>,
    ends: Arc<AtomicBool>,
}

impl Compacting {
    pub(super) fn start(tables: Tables, strategy: Leveled) -> std::io::Result<Compacting> {
        let ends = Arc::new(AtomicBool::new(false));
        let (end, strategy) = (ends.clone(), Arc::new(strategy));
        let thread = std::thread::Builder::new().name("kringle-compact".into()).spawn(move || {
            while !end.load(Ordering::Relaxed) {
                let all = || tables.spaces.iter().chain([&tables.engine]);
                let Some(table) = all().find(|table| table.tree.l0_run_count() >= PILE) else {
                    std::thread::park_timeout(EVERY);
                    continue;
                };
                // Nothing is dropped: only the database knows which versions a reader may still need.
                if let Err(error) = table.tree.compact(strategy.clone(), 0) {
                    // The database comes upon the same, and says so.
                    tracing::warn!(%error, "cannot compact the store");
                    return;
                }
                std::thread::park_timeout(SOON);
            }
        })?;
        Ok(Compacting { thread: Some(thread), ends })
    }
}

impl Drop for Compacting {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}
