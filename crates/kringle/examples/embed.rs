//! Three nodes inside one program: they find each other, say who answers for a key and how the question travels, and
//! one of them leaves.
//!
//! Run it with: cargo run --example embed

use std::time::Duration;

use kringle::{Error, Node, Settings, key_of};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    run().await
}

/// The whole program; the tests run it, too.
pub(crate) async fn run() -> Result<(), Error> {
    // The first has nobody to join: it starts the ring. All listen on loopback, at a free port. The settings for
    // demonstrations have short leases, so that the ring moves on quickly when somebody is gone.
    let first = Node::builder("blue").settings(Settings::demo()).name("first").start().await?;
    let mut nodes = vec![first.clone()];
    for name in ["second", "third"] {
        let builder = Node::builder("blue").settings(Settings::demo()).name(name);
        nodes.push(builder.join([first.address()])?.start().await?);
    }
    for node in &nodes {
        node.ready().within(Duration::from_secs(20)).await?;
        println!("{} is part of the ring, at {}", node.id(), node.address());
    }

    // Everybody gives the same answer, whoever is asked.
    let hit = nodes[1].lookup("greeting").await?;
    println!("\"greeting\" belongs to {}, {} hops from the second node", hit.root, hit.hops);
    for node in &nodes {
        assert_eq!(node.lookup("greeting").await?.root, hit.root);
        assert_eq!(node.range().await?.contains(key_of("greeting")), node.id() == hit.root);
    }

    // The way there, with the reason for every step.
    let trace = nodes[2].trace("greeting").await?;
    for hop in &trace.path {
        println!("  {}  {}", hop.node, hop.rule);
    }

    // Whoever leaves says so, and the others take over at once.
    let (leaving, staying): (Vec<Node>, Vec<Node>) =
        nodes.into_iter().partition(|node| node.id() == hit.root);
    for node in &leaving {
        node.leave().await?;
        println!("{} has left", node.id());
    }
    let heir = staying[0].lookup("greeting").within(Duration::from_secs(20)).await?;
    assert_ne!(heir.root, hit.root);
    println!("\"greeting\" belongs to {} now", heir.root);

    for node in &staying {
        node.stop().await;
    }
    Ok(())
}
