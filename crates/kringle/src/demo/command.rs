//! What can be typed at the prompt.

use std::time::Duration;

use super::data::Wish;
use super::ring::NODES_MAX;
use crate::duration;
use crate::failure::Failure;

/// What 'help' says.
pub(crate) const HELP: &str = "\
Commands
  status              the health of the ring
  ring                all nodes in ring order, with what each answers for
  lookup KEY          who answers for a key
  trace KEY           the way to a key, hop by hop, with the rule used at each
  route KEY [TEXT]    carry a message to whoever answers for a key; it answers with its name
  put KEY TEXT        store a value; several nodes keep it
  get KEY             read it; of a set, all values
  del KEY [TEXT]      delete it; with TEXT, one value of a set
  add KEY TEXT        add a value to a set
  incr KEY [N]        count
  ttl KEY [TIME]      how long it stays; with TIME (10m), change that; with 'clear', let it stay
  keys [GLOB]         list keys, for instance: keys user:*
  place KEY           where its copies are, and whether they agree
  spawn [N]           start N more nodes
  kill NODE           crash a node, without a goodbye, and see how long the ring takes to heal
  leave NODE          let a node say goodbye and end
  node NODE           everything about one node
  table [NODE]        its tables: leaf set and cells, or successors and fingers
  peers [NODE]        whom it knows
  events [SECONDS]    what happened since the last time; with SECONDS, follow for so long
  help                this
  quit                end the demo

NODE is a name (demo-3), its number (3), or the beginning of an id (a3b90c). A number of up to four digits is always a
node's number, never the beginning of an id. Without NODE the node marked with * is asked. Put quotes around a KEY
with blanks: trace \"hello world\"
";

/// The longest time to follow events.
const FOLLOW_MAX: u64 = 3600;

/// What was typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// An empty line.
    Nothing,
    Status,
    Ring,
    Lookup(String),
    Trace(String),
    Route(String, String),
    Store(Wish),
    Spawn(usize),
    Kill(String),
    Leave(String),
    Node(String),
    Table(Option<String>),
    Peers(Option<String>),
    Events(Duration),
    Help,
    Quit,
}

/// Reads a line.
pub(crate) fn parse(line: &str) -> Result<Command, Failure> {
    let mut words = words(line)?.into_iter();
    let Some(name) = words.next() else { return Ok(Command::Nothing) };
    let mut args: Vec<String> = words.collect();
    let (least, most, usage) = match name.as_str() {
        "status" | "ring" | "help" | "?" | "quit" | "exit" => (0, 0, ""),
        "lookup" => (1, 1, "lookup KEY"),
        "trace" => (1, 1, "trace KEY"),
        "route" => (1, usize::MAX, "route KEY [TEXT]"),
        "put" => (2, usize::MAX, "put KEY TEXT"),
        "get" => (1, 1, "get KEY"),
        "del" => (1, usize::MAX, "del KEY [TEXT]"),
        "add" => (2, usize::MAX, "add KEY TEXT, or, for another node: spawn"),
        "incr" => (1, 2, "incr KEY [N]"),
        "ttl" => (1, 2, "ttl KEY [TIME], for instance: ttl greeting 10m"),
        "keys" => (0, 1, "keys [GLOB], for instance: keys user:*"),
        "place" => (1, 1, "place KEY"),
        "spawn" => (0, 1, "spawn [N]"),
        "kill" => (1, 1, "kill NODE, for instance: kill demo-3"),
        "leave" => (1, 1, "leave NODE, for instance: leave demo-3"),
        "node" => (1, 1, "node NODE, for instance: node demo-3"),
        "table" => (0, 1, "table [NODE]"),
        "peers" => (0, 1, "peers [NODE]"),
        "events" => (0, 1, "events [SECONDS]"),
        _ => {
            return Err(Failure::usage(
                format!("there is no command {name:?}"),
                "Type 'help' for what there is.",
            ));
        }
    };
    if args.len() < least || args.len() > most {
        let what = match args.len() < least {
            true => format!("{name} needs something more"),
            false if most == 0 => format!("{name} stands alone"),
            false if least == most => format!("{name} takes {}, not {}", several(most), args.len()),
            false => format!("{name} takes at most {}, not {}", several(most), args.len()),
        };
        let remedy = match usage {
            "" => format!("Type just: {name}"),
            _ if least == 1 && most == 1 && !args.is_empty() => {
                format!("Write: {usage}. Put quotes around what has blanks.")
            }
            usage => format!("Write: {usage}"),
        };
        return Err(Failure::usage(what, remedy));
    }
    let first = |args: &mut Vec<String>| args.pop().unwrap_or_default();
    Ok(match name.as_str() {
        "status" => Command::Status,
        "ring" => Command::Ring,
        "lookup" => Command::Lookup(first(&mut args)),
        "trace" => Command::Trace(first(&mut args)),
        "route" => {
            let text = args.split_off(1).join(" ");
            Command::Route(first(&mut args), text)
        }
        "put" | "add" | "get" | "del" | "incr" | "ttl" | "keys" | "place" => {
            Command::Store(wish(&name, args)?)
        }
        "spawn" => Command::Spawn(match args.pop() {
            None => 1,
            Some(text) => number(&text, NODES_MAX as u64, "nodes to start")? as usize,
        }),
        "kill" => Command::Kill(first(&mut args)),
        "leave" => Command::Leave(first(&mut args)),
        "node" => Command::Node(first(&mut args)),
        "table" => Command::Table(args.pop()),
        "peers" => Command::Peers(args.pop()),
        "events" => Command::Events(Duration::from_secs(match args.pop() {
            None => 0,
            Some(text) => number(&text, FOLLOW_MAX, "seconds to follow")?,
        })),
        "help" | "?" => Command::Help,
        _ => Command::Quit,
    })
}

fn several(words: usize) -> String {
    if words == 1 { "one word".into() } else { format!("{words} words") }
}

/// Reads what is to be done with the store. There are as many words as the command takes.
fn wish(name: &str, mut args: Vec<String>) -> Result<Wish, Failure> {
    let rest = args.split_off(args.len().min(1));
    let key = args.pop();
    if key.as_deref() == Some("") && name != "keys" {
        return Err(Failure::usage(
            "a key has at least one byte",
            "Write some text, for instance: put greeting hello",
        ));
    }
    let (key, second) = (key.unwrap_or_default(), rest.first().map(String::as_str));
    let text = || rest.join(" ");
    Ok(match name {
        "put" => Wish::Put(key, text()),
        "add" => Wish::Add(key, text()),
        "get" => Wish::Get(key),
        "del" => Wish::Del(key, (!rest.is_empty()).then(text)),
        "incr" => Wish::Incr(
            key,
            match second {
                None => 1,
                Some(text) => text.parse().map_err(|_| {
                    Failure::usage(
                        format!("{text:?} is no number to count by"),
                        "Write a whole number, or none.",
                    )
                })?,
            },
        ),
        "ttl" => Wish::Ttl(
            key,
            match second {
                None => None,
                Some("clear") => Some(None),
                Some(text) => Some(Some(duration::read(text).map_err(|error| {
                    Failure::usage(error, "Write for instance: ttl greeting 10m, or: ttl greeting clear")
                })?)),
            },
        ),
        "place" => Wish::Place(key),
        _ => Wish::Keys((!key.is_empty()).then_some(key)),
    })
}

fn number(text: &str, most: u64, what: &str) -> Result<u64, Failure> {
    match text.parse() {
        Ok(number) if (1..=most).contains(&number) => Ok(number),
        _ => Err(Failure::usage(
            format!("{text:?} is no number of {what}"),
            format!("Write a number from 1 to {most}, or none."),
        )),
    }
}

/// Splits a line at blanks, except inside quotes of either kind.
fn words(line: &str) -> Result<Vec<String>, Failure> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for c in line.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '"' | '\'') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    if quote.is_some() {
        return Err(Failure::usage("a quote is not closed", "Close it, or leave it out."));
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Command {
        parse(line).unwrap()
    }

    #[test]
    fn every_command_is_read() {
        let text = |text: &str| text.to_owned();
        for (line, command) in [
            ("", Command::Nothing),
            ("  \t", Command::Nothing),
            ("status", Command::Status),
            ("  ring ", Command::Ring),
            ("lookup hello", Command::Lookup(text("hello"))),
            ("trace \"hello world\"", Command::Trace(text("hello world"))),
            ("trace ''", Command::Trace(text(""))),
            ("route k", Command::Route(text("k"), text(""))),
            ("route 'a b' how are  you", Command::Route(text("a b"), text("how are you"))),
            ("put a b c", Command::Store(Wish::Put(text("a"), text("b c")))),
            ("put a ''", Command::Store(Wish::Put(text("a"), text("")))),
            ("get a", Command::Store(Wish::Get(text("a")))),
            ("add a b", Command::Store(Wish::Add(text("a"), text("b")))),
            ("del a", Command::Store(Wish::Del(text("a"), None))),
            ("del a b c", Command::Store(Wish::Del(text("a"), Some(text("b c"))))),
            ("incr a", Command::Store(Wish::Incr(text("a"), 1))),
            ("incr a -3", Command::Store(Wish::Incr(text("a"), -3))),
            ("ttl a", Command::Store(Wish::Ttl(text("a"), None))),
            ("ttl a 10m", Command::Store(Wish::Ttl(text("a"), Some(Some(Duration::from_secs(600)))))),
            ("ttl a clear", Command::Store(Wish::Ttl(text("a"), Some(None)))),
            ("keys", Command::Store(Wish::Keys(None))),
            ("keys user:*", Command::Store(Wish::Keys(Some(text("user:*"))))),
            ("place a", Command::Store(Wish::Place(text("a")))),
            ("spawn", Command::Spawn(1)),
            ("spawn 3", Command::Spawn(3)),
            ("kill demo-3", Command::Kill(text("demo-3"))),
            ("leave a3", Command::Leave(text("a3"))),
            ("node 3", Command::Node(text("3"))),
            ("table", Command::Table(None)),
            ("table 3", Command::Table(Some(text("3")))),
            ("peers 3", Command::Peers(Some(text("3")))),
            ("events", Command::Events(Duration::ZERO)),
            ("events 2", Command::Events(Duration::from_secs(2))),
            ("?", Command::Help),
            ("exit", Command::Quit),
        ] {
            assert_eq!(parsed(line), command, "{line:?}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_what_to_do() {
        for (line, what) in [
            ("fly", "kringle: there is no command \"fly\"\n         Type 'help'"),
            ("trace", "kringle: trace needs something more\n         Write: trace KEY"),
            ("trace a b", "takes one word, not 2\n         Write: trace KEY. Put quotes around"),
            ("status now", "kringle: status stands alone\n         Type just: status"),
            ("table 1 2", "takes at most one word, not 2\n         Write: table [NODE]"),
            ("put a", "put needs something more\n         Write: put KEY TEXT"),
            ("add 3", "add needs something more\n         Write: add KEY TEXT, or, for another node: spawn"),
            ("put '' b", "a key has at least one byte"),
            ("ttl a b c", "ttl takes at most 2 words, not 3\n         Write: ttl KEY [TIME]"),
            ("ttl a soon", "\"soon\" is not a span of time"),
            ("incr a much", "\"much\" is no number to count by"),
            ("spawn 0", "\"0\" is no number of nodes to start\n         Write a number from 1 to 1000"),
            ("spawn many", "\"many\" is no number"),
            ("events -1", "\"-1\" is no number of seconds"),
            ("trace \"hello", "a quote is not closed"),
        ] {
            let failure = parse(line).unwrap_err().to_string();
            assert!(failure.contains(what), "{line:?}: {failure}");
        }
    }

    #[test]
    fn help_names_every_command() {
        for name in
            "status ring lookup trace route put get del add incr ttl keys place spawn kill leave node table peers \
             events help quit"
                .split(' ')
        {
            assert!(HELP.contains(&format!("\n  {name} ")), "{name}");
        }
    }
}
