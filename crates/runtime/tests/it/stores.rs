//! Nodes and the directories they store in.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use kringle_runtime::builder::StartError;
use kringle_runtime::transport::mem::Hub;
use kringle_runtime::{Builder, Ending, StoreKind};

use crate::support::{run, until};

fn builder(dir: &Path) -> Builder {
    Builder::new("t").memory(&Hub::new()).data(dir)
}

async fn refused(builder: Builder) -> StartError {
    let began = Instant::now();
    let error = builder.start_here().await.err().expect("this node must not start");
    assert!(began.elapsed() < Duration::from_secs(2));
    assert!(!error.remedy().is_empty());
    error
}

/// The value of a figure.
fn figure(metrics: &str, name: &str) -> u64 {
    let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name}")).parse().unwrap()
}

#[test]
fn a_data_directory_brings_a_store() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let node = builder(dir.path()).start_here().await.unwrap();
        assert!(dir.path().join("store").is_dir());
        assert_eq!(figure(&node.metrics().await.unwrap(), "kringle_store_suspect_total"), 0);
        // The same directory again, while it is in use, and then not any more.
        let error = refused(builder(dir.path())).await;
        assert!(matches!(error, StartError::Home { in_use: true, .. }), "{error}");
        assert_eq!(node.stop().await, Ending::Stopped);
        builder(dir.path()).start_here().await.unwrap().stop().await;

        let error = refused(builder(dir.path()).store(StoreKind::Memory)).await;
        assert!(error.to_string().contains("fall behind"), "{error}");

        let without = tempfile::tempdir().unwrap();
        builder(without.path()).store(StoreKind::Memory).start_here().await.unwrap().stop().await;
        assert!(!without.path().join("store").exists());
        let error = refused(Builder::new("t").store(StoreKind::Disk)).await;
        assert!(error.to_string().contains("data directory"), "{error}");
        let error = refused(builder(without.path()).tune(|settings| settings.key_max = 65_536)).await;
        assert!(error.to_string().contains("key-max"), "{error}");
    });
}

#[test]
fn stores_that_were_swapped_are_refused() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let homes = ["a", "b"].map(|name| dir.path().join(name));
        for home in &homes {
            builder(home).start_here().await.unwrap().stop().await;
        }
        for name in ["store", "store.format", "store.mark"] {
            let aside = dir.path().join("aside");
            fs::rename(homes[0].join(name), &aside).unwrap();
            fs::rename(homes[1].join(name), homes[0].join(name)).unwrap();
            fs::rename(&aside, homes[1].join(name)).unwrap();
        }
        for home in &homes {
            let error = refused(builder(home)).await;
            assert!(error.to_string().contains(home.to_str().unwrap()), "{error}");
            assert!(error.to_string().contains("node"), "{error}");
        }
    });
}

#[test]
fn a_store_that_lost_something_is_replaced_and_said_so() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        builder(dir.path()).start_here().await.unwrap().stop().await;
        fs::remove_dir_all(dir.path().join("store")).unwrap();
        let node = builder(dir.path()).start_here().await.unwrap();
        assert_eq!(figure(&node.metrics().await.unwrap(), "kringle_store_suspect_total"), 1);
        node.stop().await;
    });
}

#[test]
fn a_directory_that_can_not_be_written_is_refused() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        for path in [file.clone(), file.join("below")] {
            let error = refused(builder(&path)).await;
            assert!(error.to_string().contains(file.to_str().unwrap()), "{error}");
        }
    });
}

#[test]
fn a_full_disk_is_noticed_and_so_is_room() {
    static FREE: AtomicU64 = AtomicU64::new(1 << 30);
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let node = builder(dir.path()).min_free(1000).free_space(|_| Ok(FREE.load(Ordering::Relaxed)));
        let node = node.start_here().await.unwrap();
        for (free, room) in [(999, 0), (1250, 1), (0, 0), (1 << 40, 1)] {
            FREE.store(free, Ordering::Relaxed);
            let began = Instant::now();
            until("room", async || {
                let metrics = node.metrics().await.unwrap();
                figure(&metrics, "kringle_store_room") == room
                    && figure(&metrics, "kringle_store_free_bytes") == free
            })
            .await;
            assert!(began.elapsed() < Duration::from_secs(5));
        }
        node.stop().await;
    });
}
