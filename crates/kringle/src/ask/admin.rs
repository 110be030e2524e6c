//! `join`, `leave`, `stop` and `token`: what changes a node or its ring.

use std::io::{self, BufRead, IsTerminal, Write};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::{Args, Subcommand};
use kringle_front::moment::timestamp;
use kringle_runtime::Seed;
use kringle_runtime::report::{Summary, TokenReport};
use serde_json::{Value, json};

use crate::client::{Asked, Client, segment};
use crate::duration;
use crate::failure::Failure;
use crate::output::{Json, Manners};
use crate::show::{Columns, Sheet, Width, share};

#[derive(Debug, Args)]
pub(crate) struct JoinArgs {
    /// Where members of the ring listen for peers: HOST:PORT, or HOST for port 7400
    #[arg(required = true, value_name = "ADDR")]
    seeds: Vec<Seed>,
    #[command(flatten)]
    manners: Manners,
}

#[derive(Debug, Args)]
pub(crate) struct CopiesArgs {
    /// The new number, 1 to 15; without it, show the number
    #[arg(value_name = "N", value_parser = clap::value_parser!(u8).range(1..=15))]
    count: Option<u8>,
    #[command(flatten)]
    manners: Manners,
}

#[derive(Debug, Args)]
pub(crate) struct LeaveArgs {
    /// With --dead: the node to retire, 32 hex digits or the start of them
    #[arg(value_name = "ID", requires = "dead")]
    id: Option<String>,
    /// Retire a node that will not come back, nor will its disk: its id is refused from then on
    #[arg(long, requires = "id", conflicts_with = "plan")]
    dead: bool,
    /// Only say what would happen
    #[arg(long)]
    plan: bool,
    /// Do not ask
    #[arg(long, conflicts_with = "plan")]
    yes: bool,
    #[command(flatten)]
    manners: Manners,
}

#[derive(Debug, Args)]
pub(crate) struct RecoverArgs {
    /// Do it; without this, only say what would be done and what would be lost
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    manners: Manners,
}

#[derive(Debug, Args)]
pub(crate) struct StopArgs {
    #[command(flatten)]
    manners: Manners,
}

#[derive(Debug, Args)]
pub(crate) struct TokenArgs {
    #[command(subcommand)]
    command: TokenCommand,
}

#[derive(Debug, Subcommand)]
enum TokenCommand {
    /// Make a token with which one node may join
    New {
        /// How long it can be used
        #[arg(long, value_name = "TIME", default_value = "1h", value_parser = duration::read)]
        ttl: Duration,
        #[command(flatten)]
        manners: Manners,
    },
    /// List the tokens this node has made
    List {
        #[command(flatten)]
        columns: Columns,
        #[command(flatten)]
        manners: Manners,
    },
    /// Make a token useless
    Revoke {
        /// The token's id, as 'kringle token list' shows it
        id: String,
        #[command(flatten)]
        manners: Manners,
    },
}

/// Tells a node whom to join, and waits until it has joined or was refused.
pub(crate) fn join(asked: &Asked, args: &JoinArgs, json: Option<Json>) -> Result<String, Failure> {
    let client = Client::new(asked, args.manners)?;
    let seeds: Vec<String> = args.seeds.iter().map(ToString::to_string).collect();
    let path = format!("cluster/join?deadline={}", client.deadline());
    let document = client.post_json(&path, &json!({ "seeds": seeds }))?;
    Ok(told(args.manners, json, &document, &format!("joined through {}", seeds.join(", "))))
}

/// Shows or changes how many copies of a record the cluster keeps.
pub(crate) fn copies(asked: &Asked, args: &CopiesArgs, json: Option<Json>) -> Result<String, Failure> {
    let client = Client::new(asked, args.manners)?;
    let document = match args.count {
        Some(count) => client.post_json("cluster/copies", &json!({ "copies": count }))?,
        None => client.get("cluster/copies")?,
    };
    let count: u8 = client.read(&document, "/copies")?;
    if args.count.is_some() {
        args.manners.note("all nodes learn of it; 'kringle status' shows what is still being copied");
    }
    Ok(json.map_or_else(|| format!("{count}\n"), |json| json.write(&document, "")))
}

/// Says goodbye and ends the node, after showing what that means.
pub(crate) fn leave(asked: &Asked, args: &LeaveArgs, json: Option<Json>) -> Result<String, Failure> {
    let client = Client::new(asked, args.manners)?;
    if let Some(id) = args.id.as_deref().filter(|_| args.dead) {
        return retire(&client, id, args, json);
    }
    let me: Summary = client.read(&client.get("status?local=true")?, "/self")?;
    let plan = plan(&me);
    if args.plan {
        let value = json!({ "schema": "kringle.plan/1", "node": me, "steps": plan });
        return Ok(json.map_or_else(|| plan.join("\n") + "\n", |json| json.write(&value, "/steps")));
    }
    if !args.yes {
        if !io::stdin().is_terminal() {
            return Err(Failure::usage(
                "leave asks before it acts, and there is nobody to ask",
                "Look with --plan, then repeat it with --yes.",
            ));
        }
        // A question has to be seen, however quiet the rest is.
        Manners::default().note(&plan.join("\n"));
        if !agreed()? {
            return Err(Failure::failed("nothing was done", "Answer with y, or repeat it with --yes."));
        }
    }
    let document = client.post_json("node/leave", &json!({}))?;
    let done = if client.outlasts() { "has left" } else { "is still leaving" };
    let note = format!("{} {done} the ring of {}", Width::of([], false).cut(&me.id), me.cluster);
    Ok(told(args.manners, json, &document, &note))
}

/// Retires a node for good, after asking.
fn retire(client: &Client, id: &str, args: &LeaveArgs, json: Option<Json>) -> Result<String, Failure> {
    if id.len() != 32 || !id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(Failure::usage(
            "a dead node cannot be looked up by the start of its id",
            "Give all 32 hex digits: 'kringle status -l' shows them, and the log of the node that is gone.",
        ));
    }
    if !args.yes {
        return Err(Failure::usage(
            format!("{id} would be retired for good: its id is refused, and what only it had is given up"),
            "If neither the node nor its disk will come back, repeat it with --yes.",
        ));
    }
    let document = client.post_json("cluster/retire", &json!({ "id": id }))?;
    Ok(told(args.manners, json, &document, &format!("{id} is retired; views go on without it")))
}

/// Rebuilds slots that have no quorum from what survives, or says what that would mean.
pub(crate) fn recover(asked: &Asked, args: &RecoverArgs, json: Option<Json>) -> Result<String, Failure> {
    let client = Client::new(asked, args.manners)?;
    let document = client.post_json("cluster/recover", &json!({ "confirm": args.yes }))?;
    if let Some(json) = json {
        return Ok(json.write(&document, ""));
    }
    Ok(recovery_text(&document))
}

fn recovery_text(plan: &Value) -> String {
    let count = |name: &str| plan[name].as_u64().unwrap_or(0);
    let ids = |name: &str| -> Vec<&str> {
        plan[name].as_array().map(|ids| ids.iter().filter_map(Value::as_str).collect()).unwrap_or_default()
    };
    let mut lines = vec![
        format!("slots    {} in all, {} have a quorum", count("slots"), count("healthy")),
        format!("rebuild  {} slots, with the {} records that survive", count("rebuilt"), count("records")),
        format!("empty    {} slots of which no node that answered has a copy", count("empty")),
    ];
    for id in ids("missing") {
        lines.push(format!("missing  {id}: what only it had is lost; if it returns, its store is set aside"));
    }
    for id in ids("silent") {
        lines.push(format!("silent   {id} did not answer in time: what it holds is counted as missing"));
    }
    let broken = count("rebuilt") + count("empty");
    lines.push(match (broken, plan["confirmed"].as_bool()) {
        (0, _) => "Nothing to recover.".into(),
        (_, Some(true)) => "Under way; 'kringle status' shows when all copies are there again.".into(),
        _ => "Nothing was changed. To do it: kringle recover --yes".into(),
    });
    lines.join("\n") + "\n"
}

fn plan(me: &Summary) -> Vec<String> {
    let width = Width::of([me.left.as_deref(), me.right.as_deref()].into_iter().flatten(), false);
    let name = me.name.as_ref().map_or(String::new(), |name| format!(" ({name})"));
    let mut steps =
        vec![format!("node {}{name} leaves the ring of cluster {}", width.cut(&me.id), me.cluster)];
    let beside = |id: &Option<String>| id.as_deref().map(|id| width.cut(id).to_owned());
    steps.push(match (beside(&me.left), beside(&me.right)) {
        (Some(left), Some(right)) if left != right => {
            format!("its {} of the ring goes to its neighbours {left} and {right}", share(me.share))
        }
        (Some(only), _) | (_, Some(only)) => format!("its {} of the ring goes to {only}", share(me.share)),
        (None, None) => "it is the only node: the ring is gone with it".into(),
    });
    steps.push("its peers forget it, and the process ends".into());
    steps
}

fn agreed() -> Result<bool, Failure> {
    let _ = write!(io::stderr(), "Leave? [y/N] ");
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).map_err(|error| {
        Failure::failed(format!("cannot read the answer: {error}"), "Repeat it with --yes.")
    })?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

/// Ends a node without a goodbye.
pub(crate) fn stop(asked: &Asked, args: &StopArgs, json: Option<Json>) -> Result<String, Failure> {
    let client = Client::new(asked, args.manners)?;
    let document = client.post_json("node/stop", &json!({}))?;
    let done = if client.outlasts() { "stopped" } else { "still stopping" };
    let note = format!("{done}; started again with the same --data, it comes back as the same node");
    Ok(told(args.manners, json, &document, &note))
}

/// Makes, lists and revokes tokens.
pub(crate) fn token(asked: &Asked, args: &TokenArgs, json: Option<Json>) -> Result<String, Failure> {
    match &args.command {
        TokenCommand::New { ttl, manners } => {
            let client = Client::new(asked, *manners)?;
            let document = client.post_json("tokens", &json!({ "lifetime": duration::exact(*ttl) }))?;
            if let Some(json) = json {
                return Ok(json.write(&document, ""));
            }
            let token: String = client.read(&document, "/token")?;
            manners
                .note("for one node; only this node takes it: kringle start --join HOST:PORT --token TOKEN");
            Ok(format!("{token}\n"))
        }
        TokenCommand::List { columns, manners } => {
            let client = Client::new(asked, *manners)?;
            let document = client.get("tokens")?;
            let tokens: Vec<TokenReport> = client.read(&document, "/tokens")?;
            let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
            Ok(json.map_or_else(|| list(&tokens, *columns, now), |json| json.write(&document, "/tokens")))
        }
        TokenCommand::Revoke { id, manners } => {
            let client = Client::new(asked, *manners)?;
            let document = client.delete(&format!("tokens/{}", segment(id.as_bytes())))?;
            Ok(told(*manners, json, &document, &format!("token {id} can not be used any more")))
        }
    }
}

fn list(tokens: &[TokenReport], columns: Columns, now: u64) -> String {
    let mut sheet = Sheet::new(&["ID", "STATE", "EXPIRES"]);
    for token in tokens {
        let expires = match token.expires.checked_sub(now) {
            Some(left) if left > 0 && !columns.long => {
                format!("in {}", duration::rough(Duration::from_secs(left)))
            }
            _ => timestamp(token.expires.saturating_mul(1000)),
        };
        let over = token.state == "open" && token.expires <= now;
        let state = if over { "expired".into() } else { token.state.clone() };
        sheet.row(vec![token.id.clone(), state, expires]);
    }
    sheet.text(columns)
}

/// Tells the outcome: a document to programs, a note to people.
fn told(manners: Manners, json: Option<Json>, document: &Value, note: &str) -> String {
    if let Some(json) = json {
        return if document.is_null() { String::new() } else { json.write(document, "") };
    }
    manners.note(note);
    String::new()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::samples::{id, summary};

    #[test]
    fn the_plan_says_who_takes_over() {
        let mut me = summary("33aa", Some("c"), 7400);
        assert_eq!(
            plan(&me),
            [
                "node 33aa00 (c) leaves the ring of cluster demo",
                "its 25.0% of the ring goes to its neighbours 0af3c1 and 1d77e0",
                "its peers forget it, and the process ends",
            ]
        );
        me.right = Some(id("0af3c1"));
        assert_eq!(plan(&me)[1], "its 25.0% of the ring goes to 0af3c1");
        (me.left, me.right) = (None, None);
        assert_eq!(plan(&me)[1], "it is the only node: the ring is gone with it");
    }

    #[test]
    fn tokens_show_how_long_they_last() {
        let token =
            |id: &str, expires, state: &str| TokenReport { id: id.into(), expires, state: state.into() };
        let tokens = [token("t1", 4_600, "open"), token("t2", 900, "open"), token("t3", 4_600, "used")];
        let text = "\
ID  STATE    EXPIRES
t1  open     in 1h00m
t2  expired  1970-01-01T00:15:00.000Z
t3  used     in 1h00m
";
        assert_eq!(list(&tokens, Columns::default(), 1_000), text);
    }
}
