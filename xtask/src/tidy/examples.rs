//! The examples in README.md print what the README says they print.
//!
//! An example is a `$ kringle ...` line in a `console` block with output below it. A line `...` stands for any number
//! of lines. A command shown without output is not run: it may be meant to stay.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::Problem;
use super::markdown::Document;
use super::tree::Tree;
use crate::cargo::Call;

const README: &str = "README.md";
const ELLIPSIS: &str = "...";

/// Longer than any example should take, short enough to notice one that never ends.
const TIME_MAX: Duration = Duration::from_secs(120);

/// Runs every example and compares. `run` gets the words after `kringle` and returns what was printed.
pub(super) fn check(tree: &Tree, run: &mut dyn FnMut(&[String]) -> Result<String, String>) -> Vec<Problem> {
    let mut problems = Vec::new();
    for example in examples(tree.text(README).unwrap_or_default()) {
        let printed = split_words(example.command).and_then(|words| run(&words));
        let mismatch = match &printed {
            Ok(printed) => example.compare(printed),
            Err(why) => Some((example.line, why.clone())),
        };
        problems
            .extend(mismatch.map(|(line, why)| {
                Problem::new(README, line, format!("kringle {}: {why}", example.command))
            }));
    }
    problems
}

/// A command and what it should print.
struct Example<'a> {
    line: usize,
    command: &'a str,
    expected: Vec<(usize, &'a str)>,
}

impl Example<'_> {
    /// Returns the first expected line that was not printed, and what was printed instead of all.
    fn compare(&self, printed: &str) -> Option<(usize, String)> {
        let lines: Vec<&str> = printed.trim_end().lines().map(str::trim_end).collect();
        // Where in the printed lines we may be; an ellipsis makes that several places.
        let mut places = vec![0];
        for &(line, expected) in &self.expected {
            places = if expected.trim() == ELLIPSIS {
                (places[0]..=lines.len()).collect()
            } else {
                let fits = |place: &usize| lines.get(*place) == Some(&expected.trim_end());
                places.into_iter().filter(fits).map(|place| place + 1).collect()
            };
            if places.is_empty() {
                return Some((line, format!("this line was not printed; all of it was:\n{printed}")));
            }
        }
        let complete = places.contains(&lines.len());
        (!complete).then(|| (self.line, format!("more was printed than is shown:\n{printed}")))
    }
}

fn examples(readme: &str) -> Vec<Example<'_>> {
    let mut examples = Vec::new();
    for fence in Document::parse(readme).fences.into_iter().filter(|fence| fence.language == "console") {
        let mut current: Option<Example<'_>> = None;
        for (line, text) in fence.lines {
            if let Some(command) = text.strip_prefix("$ ") {
                examples.extend(current.take());
                let command = command.strip_prefix("kringle ");
                current = command.map(|command| Example { line, command, expected: Vec::new() });
            } else if let Some(example) = &mut current {
                example.expected.push((line, text));
            }
        }
        examples.extend(current);
    }
    for example in &mut examples {
        while example.expected.pop_if(|(_, line)| line.trim().is_empty()).is_some() {}
    }
    examples.retain(|example| !example.expected.is_empty());
    examples
}

/// Splits a command into words as a shell does, quotes included. Whatever only a shell can do is refused.
fn split_words(command: &str) -> Result<Vec<String>, String> {
    let mut words: Vec<String> = Vec::new();
    let (mut quote, mut in_word) = (None, false);
    for c in command.chars() {
        match quote {
            Some(open) if c == open => {
                quote = None;
                continue;
            }
            None if c.is_whitespace() => {
                in_word = false;
                continue;
            }
            None if "|&;<>$`\\*?#(){}".contains(c) => {
                return Err(format!("{c:?} needs a shell; examples do without"));
            }
            _ => {}
        }
        if !in_word {
            words.push(String::new());
            in_word = true;
        }
        if quote.is_none() && (c == '"' || c == '\'') {
            quote = Some(c);
        } else if let Some(word) = words.last_mut() {
            word.push(c);
        }
    }
    match quote {
        Some(_) => Err("a quote is not closed".into()),
        None => Ok(words),
    }
}

/// Runs the product and returns what it printed.
pub(super) fn run_kringle(root: &Path, words: &[String]) -> Result<String, String> {
    // Built apart, so that compiling does not count against the example's time.
    let built = Call::new("build --quiet --locked -p kringle").command(root).status();
    if !built.map_err(|error| error.to_string())?.success() {
        return Err("it does not build".into());
    }
    let mut command = Call::new("run --quiet --locked -p kringle --").args(words).command(root);
    // Help texts fit themselves to the terminal: there must be none.
    command.env_remove("COLUMNS").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().map_err(|error| format!("it did not start: {error}"))?;
    finish(child, TIME_MAX)
}

/// Waits for the end of a process and returns what it printed. One that takes too long is ended.
fn finish(mut child: Child, time_max: Duration) -> Result<String, String> {
    let (stdout, stderr) = (child.stdout.take().map(read_all), child.stderr.take().map(read_all));
    let text = |reader: Option<thread::JoinHandle<String>>| {
        reader.and_then(|reader| reader.join().ok()).unwrap_or_default()
    };
    let start = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(text(stdout)),
            Ok(Some(status)) => return Err(format!("it ended with {status}\n{}", text(stderr))),
            Ok(None) if start.elapsed() < time_max => thread::sleep(Duration::from_millis(10)),
            ended => {
                let why = ended.map_or_else(|error| error.to_string(), |_| "it does not end".into());
                // Both fail only if it has ended meanwhile.
                child.kill().and_then(|()| child.wait()).ok();
                return Err(why);
            }
        }
    }
}

/// Reads to the end in a thread of its own: a process whose output nobody takes would stand still.
fn read_all(mut from: impl Read + Send + 'static) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // What came before an error is still worth comparing.
        from.read_to_end(&mut bytes).ok();
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = "\
text
```console
$ kringle id 'a b'
one
...
four

$ ls
whatever
$ kringle serve
```
```console
$ kringle last
end
```
```text
$ kringle not run
five
```
";

    fn check_sample(answer: &str) -> Vec<String> {
        let mut tree = Tree::default();
        tree.put(README, SAMPLE);
        let mut run = |words: &[String]| match words {
            [word] if word == "last" => Ok("end\n".into()),
            [word, two] if word == "id" && two == "a b" => Ok(answer.into()),
            _ => Err(format!("unexpected: {words:?}")),
        };
        check(&tree, &mut run).iter().map(|problem| problem.to_string()).collect()
    }

    #[test]
    fn examples_that_print_what_is_shown_pass() {
        for answer in ["one\nfour\n", "one\ntwo\nthree\nfour  \n\n", "one\nfour\nfour"] {
            assert_eq!(check_sample(answer), [""; 0], "{answer:?}");
        }
    }

    #[test]
    fn examples_that_print_something_else_are_reported_with_their_line() {
        for (answer, line) in [("none\nfour", 4), ("one\nfive", 6), ("", 4), ("one\ntwo", 6)] {
            let problems = check_sample(answer);
            assert_eq!(problems.len(), 1);
            let start = format!("README.md:{line}: kringle id 'a b': this line was not printed");
            assert!(problems[0].starts_with(&start), "{problems:?}");
        }
        let more = "README.md:3: kringle id 'a b': more was printed than is shown:\none\nfour\nfive";
        assert_eq!(check_sample("one\nfour\nfive"), [more]);
    }

    #[test]
    fn examples_that_fail_are_reported() {
        let mut tree = Tree::default();
        tree.put(README, "```console\n$ kringle a\nb\n$ kringle c | d\ne\n```");
        let problems = check(&tree, &mut |_| Err("it ended with exit status: 2".into()));
        let problems: Vec<String> = problems.iter().map(|problem| problem.to_string()).collect();
        assert_eq!(
            problems,
            [
                "README.md:2: kringle a: it ended with exit status: 2",
                "README.md:4: kringle c | d: '|' needs a shell; examples do without"
            ]
        );
    }

    #[test]
    fn words_are_split_as_a_shell_does() {
        let words = split_words(r#"put  "a b" 'c "d"' e"f g"h '' "#).unwrap();
        assert_eq!(words, ["put", "a b", "c \"d\"", "ef gh", ""]);
        assert!(split_words("a 'b").is_err());
    }

    #[test]
    fn a_process_that_does_not_end_is_ended() {
        let sleep = |seconds: &str| {
            let mut command = std::process::Command::new("sleep");
            command.arg(seconds).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        };
        assert_eq!(finish(sleep("60"), Duration::from_millis(50)), Err("it does not end".into()));
        assert_eq!(finish(sleep("0"), Duration::from_secs(60)), Ok(String::new()));
        let why = finish(sleep("long"), Duration::from_secs(60)).unwrap_err();
        assert!(why.starts_with("it ended with exit status: 1\nsleep: "), "{why}");
    }
}
