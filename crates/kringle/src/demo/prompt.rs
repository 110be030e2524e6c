//! Waits for lines on a thread of its own, so that the ring goes on meanwhile.
//!
//! On a terminal there is a line to edit and a history, which is not kept; otherwise lines are read as they come.

use std::io::{self, BufRead, IsTerminal};
use std::sync::mpsc as asking;

use rustyline::Editor;
use rustyline::error::ReadlineError;
use rustyline::history::MemHistory;
use tokio::sync::mpsc as telling;

use crate::failure::Failure;

const PROMPT: &str = "kringle> ";

/// What came from the prompt.
pub(crate) enum Said {
    /// A line, without its end.
    Line(String),
    /// There is nothing more.
    End,
    /// Ctrl-C.
    Interrupt,
}

/// The prompt.
pub(crate) struct Prompt {
    ask: asking::Sender<()>,
    said: telling::Receiver<Said>,
}

impl Prompt {
    /// Opens it. Nothing is read before [`Prompt::next`].
    pub(crate) fn open() -> Result<Prompt, Failure> {
        let (ask, asked) = asking::channel();
        let (tell, said) = telling::channel(1);
        let thread = std::thread::Builder::new().name("prompt".into()).spawn(move || {
            let mut reader = Reader::open();
            while asked.recv().is_ok() {
                if tell.blocking_send(reader.read()).is_err() {
                    return;
                }
            }
        });
        thread.map(|_| Prompt { ask, said }).map_err(|error| {
            Failure::failed(
                format!("cannot open the prompt: {error}"),
                "Free some resources (memory, threads) and try again.",
            )
        })
    }

    /// Waits for the next line.
    pub(crate) async fn next(&mut self) -> Said {
        if self.ask.send(()).is_err() {
            return Said::End;
        }
        self.said.recv().await.unwrap_or(Said::End)
    }
}

enum Reader {
    Terminal(Box<Editor<(), MemHistory>>),
    Plain,
}

impl Reader {
    fn open() -> Reader {
        if !io::stdin().is_terminal() {
            return Reader::Plain;
        }
        // A terminal that can not be edited on still has lines.
        match Editor::with_history(rustyline::Config::default(), MemHistory::new()) {
            Ok(editor) => Reader::Terminal(Box::new(editor)),
            Err(_) => Reader::Plain,
        }
    }

    fn read(&mut self) -> Said {
        match self {
            Reader::Terminal(editor) => match editor.readline(PROMPT) {
                Ok(line) => {
                    // Without a history the line is still a line.
                    let _ = editor.add_history_entry(&line);
                    Said::Line(line)
                }
                Err(ReadlineError::Interrupted) => Said::Interrupt,
                Err(_) => Said::End,
            },
            Reader::Plain => {
                let mut line = Vec::new();
                match io::stdin().lock().read_until(b'\n', &mut line) {
                    Ok(count) if count > 0 => {
                        Said::Line(String::from_utf8_lossy(&line).trim_end().to_owned())
                    }
                    _ => Said::End,
                }
            }
        }
    }
}
