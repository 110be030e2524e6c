use std::time::Instant;

use super::*;

fn local<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, test)
}

async fn ids(count: usize, seed: u64) -> Vec<String> {
    let mut ring = Ring::start(count, seed, OverlayKind::Pastry, |_| {}).await.unwrap();
    let ids = ring.members().iter().map(|member| member.node.id().to_string()).collect();
    ring.end().await;
    ids
}

async fn answer(session: &mut Session, line: &str) -> Result<String, String> {
    let command = command::parse(line).map_err(|failure| failure.to_string())?;
    match session.execute(command).await {
        Ok(Next::Answer(text)) => Ok(text),
        Ok(Next::Quit) => Err("quit".into()),
        Err(failure) => Err(failure.to_string()),
    }
}

async fn session(count: usize) -> Session {
    let ring = Ring::start(count, 42, OverlayKind::Pastry, |_| {}).await.unwrap();
    ring.healed().await.unwrap();
    Session::new(ring, None)
}

#[test]
fn the_same_seed_is_the_same_ring() {
    local(async {
        let first = ids(5, 7).await;
        assert_eq!(first, ids(5, 7).await);
        assert_ne!(first, ids(5, 8).await);
        assert_eq!(first[..3], ids(3, 7).await, "a smaller ring is a part of it");
    });
}

#[test]
fn everybody_is_told_of_as_they_join() {
    local(async {
        let mut told = Vec::new();
        let mut ring = Ring::start(6, 1, OverlayKind::Pastry, |ready| told.push(ready)).await.unwrap();
        assert_eq!(told, [1, 2, 3, 4, 5, 6]);
        let names: Vec<String> = ring.members().iter().map(ring::Member::name).collect();
        assert_eq!(names, ["demo-1", "demo-2", "demo-3", "demo-4", "demo-5", "demo-6"]);
        ring.end().await;
    });
}

#[test]
fn nodes_are_found_by_name_number_and_prefix() {
    local(async {
        let mut ring = Ring::start(20, 42, OverlayKind::Pastry, |_| {}).await.unwrap();
        let third = ring.members()[2].clone();
        let id = third.node.id().to_string();
        for text in ["demo-3", "3", &id, &id[..12], &id[..12].to_uppercase()] {
            assert_eq!(ring.find(text).map(|member| member.number).unwrap(), 3, "{text}");
        }
        let find =
            |text: &str| ring.find(text).map(|member| member.number).map_err(|failure| failure.to_string());
        assert!(find("demo-21").unwrap_err().starts_with("kringle: there is no node \"demo-21\"\n"));
        assert!(find("xyz").unwrap_err().contains("there is no node"));
        // Twenty ids and sixteen first digits: somebody has to share one. Digits alone would be a number.
        let firsts: Vec<char> = ring.members().iter().map(|m| m.node.id().to_string().remove(0)).collect();
        let shared = ('a'..='f').find(|c| firsts.iter().filter(|first| *first == c).count() > 1).unwrap();
        let many = find(&shared.to_string()).unwrap_err();
        assert!(many.contains(&format!("nodes begin with {shared}: ")) && many.contains("(demo-"), "{many}");
        ring.end().await;
    });
}

#[test]
fn a_crash_is_noticed_repaired_and_written_down() {
    local(async {
        let mut session = session(12).await;
        assert_eq!(
            answer(&mut session, "events").await.unwrap(),
            "nothing has happened since the last time\n"
        );
        let said = answer(&mut session, "kill 3").await.unwrap();
        assert!(said.contains(" (demo-3) crashed.  ring repaired in "), "{said}");
        let events = answer(&mut session, "events").await.unwrap();
        assert!(events.contains("peer-down") && events.contains("died"), "{events}");
        let status = answer(&mut session, "status").await.unwrap();
        assert!(status.contains("11 nodes up, 0 suspect, 0 down\nring     whole"), "{status}");
        assert!(answer(&mut session, "kill 3").await.unwrap_err().contains("demo-3 is not there any more"));
        let said = answer(&mut session, "leave demo-4").await.unwrap();
        assert!(said.contains(" (demo-4) said goodbye.  ring closed in "), "{said}");
        let said = answer(&mut session, "spawn 2").await.unwrap();
        assert!(
            said.starts_with("demo-13 to demo-14 joined in ") && said.ends_with("12 nodes now\n"),
            "{said}"
        );
        session.end().await;
    });
}

#[test]
fn the_node_that_is_asked_may_crash_but_not_the_last_ones() {
    local(async {
        let mut session = session(3).await;
        let said = answer(&mut session, "kill demo-1").await.unwrap();
        assert!(said.contains("(demo-1) crashed."), "{said}");
        assert!(answer(&mut session, "kill 2").await.unwrap_err().contains("could not tell a crash"));
        let said = answer(&mut session, "leave 2").await.unwrap();
        assert!(said.contains("(demo-2) said goodbye."), "{said}");
        let found = answer(&mut session, "lookup hello").await.unwrap();
        assert!(found.contains("(demo-3)   0 hops"), "{found}");
        assert!(answer(&mut session, "leave 3").await.unwrap_err().contains("demo-3 is the last node"));
        session.end().await;
    });
}

#[test]
fn a_node_ended_from_outside_is_missed() {
    local(async {
        let mut session = session(3).await;
        session.here().leave().await.unwrap();
        session.lose_one().await.unwrap();
        assert!(answer(&mut session, "node 1").await.unwrap_err().contains("demo-1 is not there any more"));
        let status = answer(&mut session, "status").await.unwrap();
        assert!(status.contains("   2 nodes up, "), "{status}");
        session.end().await;
    });
}

/// Not a limit, a net: it takes a fraction of this.
#[test]
fn a_ring_of_sixty_four_is_up_in_no_time() {
    local(async {
        let began = Instant::now();
        let mut ring = Ring::start(64, 42, OverlayKind::Pastry, |_| {}).await.unwrap();
        let ready = began.elapsed();
        let healed = ring.healed().await.unwrap();
        println!("64 nodes are ready after {ready:?}, and their leaf sets agree after {healed:?} more");
        assert!(ready < Duration::from_secs(30), "{ready:?}");
        ring.end().await;
    });
}
