//! Who gets in, who does not, and what both are told.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kringle_runtime::identity::credentials::Passphrase;
use kringle_runtime::report::What;
use kringle_runtime::transport::mem::Hub;
use kringle_runtime::{Builder, Ending, Handle, Seed, StartError};
use tokio::time::timeout;

use crate::support::{LONG, Place, builder, node, quick, run, until};

fn seed_of(node: &Handle) -> [Seed; 1] {
    [Seed::Address(node.info().bound[0])]
}

/// Waits for a refusal to be told.
async fn refusal(node: &Handle) -> String {
    let mut events = node.events();
    let told = async {
        while let Some(event) = events.next().await {
            if let What::Refused { reason, .. } = &event.what {
                return reason.clone();
            }
        }
        panic!("the node ended first");
    };
    timeout(LONG, told).await.unwrap()
}

#[test]
fn a_node_of_another_cluster_is_refused_and_both_are_told() {
    run(async {
        let blue = Builder::new("blue").start_here().await.unwrap();
        let red = Builder::new("red").join(seed_of(&blue)).start_here().await.unwrap();
        let (at_blue, at_red) = tokio::join!(refusal(&blue), refusal(&red));
        for reason in [at_blue, at_red] {
            assert!(
                reason.contains("blue") && reason.contains("red") && reason.contains("KR0421"),
                "{reason}"
            );
        }
        assert!(!red.is_ready());
        assert_eq!(blue.survey(10, LONG).await.unwrap().nodes.len(), 1);
    });
}

#[test]
fn the_same_name_with_another_secret_is_another_cluster() {
    run(async {
        let first = Builder::new("blue").secret("one").start_here().await.unwrap();
        let second = Builder::new("blue").secret("two").join(seed_of(&first)).start_here().await.unwrap();
        let reason = refusal(&second).await;
        assert!(reason.contains("secrets differ"), "{reason}");
        let third = Builder::new("blue").secret("one").join(seed_of(&first)).start_here().await.unwrap();
        timeout(LONG, third.ready()).await.unwrap().unwrap();
    });
}

#[test]
fn a_token_lets_one_node_in_which_then_has_a_certificate_of_its_own() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let home = |name: &str| dir.path().join(name);
        let founder =
            Builder::new("blue").settings(quick()).secret("one").data(home("a")).start_here().await.unwrap();
        let token = founder.issue_token(Duration::from_secs(60)).await.unwrap().unwrap();
        let with = |name: &str, token: &str| {
            let builder = Builder::new("blue").settings(quick()).data(home(name)).token(token);
            builder.join(seed_of(&founder))
        };
        let member = with("b", &token).start_here().await.unwrap();
        timeout(LONG, member.ready()).await.unwrap().unwrap();
        assert_eq!(founder.list_tokens().await.unwrap()[0].state, "used");

        // A second time it is worth nothing.
        let thief = with("c", &token).start_here().await.unwrap();
        let reason = refusal(&thief).await;
        assert!(reason.contains("used"), "{reason}");

        // It is shown only to the node that made it.
        let fresh = founder.issue_token(Duration::from_secs(60)).await.unwrap().unwrap();
        let lost = Builder::new("blue").settings(quick()).token(fresh).join(seed_of(&member));
        let lost = lost.start_here().await.unwrap();
        let Ending::Refused { what } = timeout(LONG, lost.ended()).await.unwrap() else { panic!() };
        assert!(what.contains(&founder.id().to_string()), "{what}");
        let tokens = founder.list_tokens().await.unwrap();
        assert_eq!(tokens.iter().filter(|token| token.state == "open").count(), 1, "{tokens:?}");

        // The member can not admit others, and says so.
        let cannot = member.issue_token(Duration::from_secs(60)).await.unwrap().unwrap_err();
        assert!(cannot.contains("secret"), "{cannot}");

        // It comes back without any token, by its certificate alone.
        assert_eq!(member.stop().await, Ending::Stopped);
        let again = Builder::new("blue").settings(quick()).data(home("b"));
        let again = again.start_here().await.unwrap();
        timeout(LONG, again.ready()).await.unwrap().unwrap();
        assert_eq!(again.id(), member.id());
        assert!(again.info().incarnation > member.info().incarnation);
    });
}

#[test]
fn a_private_cluster_lets_nobody_in_without_a_token_and_says_how_to_get_one() {
    run(async {
        let founder = Builder::new("blue").secret("one").start_here().await.unwrap();
        let secretless: SocketAddr = "0.0.0.0:0".parse().unwrap();
        let stranger = Builder::new("blue").listen(secretless).join(seed_of(&founder));
        let Err(StartError::Input { what, remedy }) = stranger.start_here().await else {
            panic!("it started")
        };
        assert!(what.contains("token") && remedy.contains("kringle token new"));
    });
}

#[test]
fn credentials_of_ones_own_are_asked_for() {
    run(async {
        let hub = Hub::new();
        let pass = |phrase: &str| Arc::new(Passphrase::new(phrase));
        let make = |phrase: &str| Builder::new("t").settings(quick()).memory(&hub).credentials(pass(phrase));
        let first = make("open sesame").start_here().await.unwrap();
        let friend = make("open sesame").join(seed_of(&first)).start_here().await.unwrap();
        timeout(LONG, friend.ready()).await.unwrap().unwrap();
        let stranger = make("open barley").join(seed_of(&first)).start_here().await.unwrap();
        let (here, there) = tokio::join!(refusal(&first), refusal(&stranger));
        assert!(!here.is_empty() && !there.is_empty());
    });
}

#[test]
fn a_seed_that_is_oneself_makes_a_ring_of_ones_own() {
    run(async {
        // A port that is free now is free in a moment: nothing else of this test listens.
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let alone = Builder::new("t").listen(free).join([Seed::Address(free)]).start_here().await.unwrap();
        timeout(LONG, alone.ready()).await.unwrap().unwrap();
    });
}

#[test]
fn a_seed_that_comes_later_is_found() {
    run(async {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let early = builder(&Place::Sockets, None).join([Seed::Address(free)]).start_here().await.unwrap();
        until("the seed is missed", || async { !early.is_ready() }).await;
        let late = builder(&Place::Sockets, None).listen(free).start_here().await.unwrap();
        timeout(LONG, early.ready()).await.unwrap().unwrap();
        until("both are one ring", || async { late.survey(9, LONG).await.unwrap().nodes.len() == 2 }).await;
    });
}

#[test]
fn a_node_that_was_stopped_while_it_looked_for_a_ring_stays_stopped() {
    run(async {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let early = builder(&Place::Sockets, None).join([Seed::Address(free)]).start_here().await.unwrap();
        assert_eq!(early.stop().await, Ending::Stopped);
        assert!(early.ready().await.is_err());
        let late = builder(&Place::Sockets, None).listen(free).start_here().await.unwrap();
        late.ready().await.unwrap();
        // Longer than its pause between two rounds over the seeds.
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(late.survey(9, LONG).await.unwrap().nodes.len(), 1);
    });
}

#[test]
fn rings_that_are_introduced_become_one() {
    run(async {
        let hub = Place::Memory(Hub::new());
        let (one, other) = (node(&hub, None).await, node(&hub, None).await);
        one.ready().await.unwrap();
        other.ready().await.unwrap();
        one.join(seed_of(&other).to_vec()).await.unwrap();
        until("they are one", || async { one.survey(9, LONG).await.is_ok_and(|found| found.whole) }).await;
    });
}

async fn kept(dir: &Path, name: &str) -> Handle {
    Builder::new("t").settings(quick()).data(dir.join(name)).start_here().await.unwrap()
}

#[test]
fn a_ring_that_was_stopped_as_a_whole_comes_back_without_seeds() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let first = kept(dir.path(), "0").await;
        let mut nodes = vec![first];
        for name in ["1", "2", "3"] {
            let builder = Builder::new("t").settings(quick()).data(dir.path().join(name));
            nodes.push(builder.join(seed_of(&nodes[0])).start_here().await.unwrap());
        }
        for node in &nodes {
            timeout(LONG, node.ready()).await.unwrap().unwrap();
        }
        until("everybody knows everybody", || async {
            nodes[0].survey(9, LONG).await.is_ok_and(|found| found.whole && found.nodes.len() == 4)
        })
        .await;
        for node in &nodes {
            assert_eq!(node.stop().await, Ending::Stopped);
        }
        let mut again = Vec::new();
        for (name, before) in ["0", "1", "2", "3"].into_iter().zip(&nodes) {
            let builder = Builder::new("t").settings(quick()).data(dir.path().join(name));
            again.push(builder.listen(before.info().bound[0]).start_here().await.unwrap());
        }
        for (node, before) in again.iter().zip(&nodes) {
            timeout(LONG, node.ready()).await.unwrap().unwrap();
            assert_eq!(node.id(), before.id());
        }
        until("one ring", || async {
            again[2].survey(9, LONG).await.is_ok_and(|found| found.nodes.len() == 4)
        })
        .await;
    });
}

#[test]
fn a_directory_in_use_or_of_another_cluster_is_refused() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let first = kept(dir.path(), "0").await;
        let second = Builder::new("t").data(dir.path().join("0")).start_here().await;
        let Err(error @ StartError::Home { in_use: true, .. }) = second else { panic!("two at once") };
        assert!(!error.remedy().is_empty());
        assert_eq!(first.stop().await, Ending::Stopped);
        until("the lock is free", || async {
            let other = Builder::new("other").data(dir.path().join("0")).start_here().await;
            matches!(other, Err(StartError::Input { ref what, .. }) if what.contains("cluster t"))
        })
        .await;
    });
}

fn copy_all(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for file in std::fs::read_dir(from).unwrap() {
        let (path, target) = (file.as_ref().unwrap().path(), to.join(file.unwrap().file_name()));
        if path.is_dir() {
            copy_all(&path, &target);
        } else {
            std::fs::copy(path, target).unwrap();
        }
    }
}

#[test]
fn of_two_with_the_same_identity_one_ends_and_says_why() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let base = builder(&Place::Sockets, None).start_here().await.unwrap();
        let original = builder(&Place::Sockets, Some(&base)).data(dir.path().join("a"));
        let original = original.start_here().await.unwrap();
        timeout(LONG, original.ready()).await.unwrap().unwrap();
        let copy = dir.path().join("b");
        copy_all(&dir.path().join("a"), &copy);
        let twin = builder(&Place::Sockets, Some(&base)).data(copy).start_here().await.unwrap();
        let ending = timeout(LONG, async {
            tokio::select! { ending = original.ended() => ending, ending = twin.ended() => ending }
        });
        let Ending::Twin { what } = ending.await.unwrap() else { panic!("another ending") };
        assert!(what.contains("same identity"), "{what}");
        until("the ring goes on", || async {
            base.survey(9, LONG).await.is_ok_and(|found| found.whole && found.nodes.len() == 2)
        })
        .await;
    });
}
