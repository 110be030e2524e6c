//! What a command says when it cannot do what was asked: what happened, and what to do about it.

use std::fmt;
use std::process::ExitCode;

/// A command that ended badly. Shown as one line of cause and one line of remedy.
#[derive(Debug)]
pub(crate) struct Failure {
    what: String,
    remedy: String,
    code: u8,
}

/// What a command says at its end, and how it ended.
pub(crate) type Answer = Result<(String, Ending), Failure>;

/// How a command ended that had an answer.
#[derive(Debug)]
pub(crate) enum Ending {
    /// All is well.
    Good,
    /// The answer says what is wrong: exit code 1.
    Bad,
    /// There is an answer, and something went wrong all the same.
    Failed(Failure),
}

impl From<bool> for Ending {
    fn from(good: bool) -> Ending {
        if good { Ending::Good } else { Ending::Bad }
    }
}

impl Failure {
    /// Wrong usage or input: exit code 2.
    pub(crate) fn usage(what: impl Into<String>, remedy: impl Into<String>) -> Failure {
        Failure { what: what.into(), remedy: remedy.into(), code: 2 }
    }

    /// It was asked rightly and went wrong: exit code 1.
    pub(crate) fn failed(what: impl Into<String>, remedy: impl Into<String>) -> Failure {
        Failure { what: what.into(), remedy: remedy.into(), code: 1 }
    }

    /// It ended with this exit code.
    pub(crate) fn coded(code: u8, what: impl Into<String>, remedy: impl Into<String>) -> Failure {
        Failure { what: what.into(), remedy: remedy.into(), code }
    }

    /// Ctrl-C has ended it: exit code 130.
    pub(crate) fn interrupted(what: impl Into<String>, remedy: impl Into<String>) -> Failure {
        Failure { what: what.into(), remedy: remedy.into(), code: 130 }
    }

    /// The answer could not be written: exit code 1.
    pub(crate) fn output(error: &std::io::Error) -> Failure {
        Failure {
            what: format!("cannot write to standard output: {error}"),
            remedy: "The answer above is incomplete; make room, or write somewhere else.".into(),
            code: 1,
        }
    }

    /// Says where the cause was found.
    pub(crate) fn at(self, place: impl fmt::Display) -> Failure {
        Failure { what: format!("{place}: {}", self.what), ..self }
    }

    /// Returns what the process ends with.
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.code)
    }
}

#[cfg(test)]
impl Failure {
    /// Returns the number the process ends with.
    pub(crate) fn code(&self) -> u8 {
        self.code
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kringle: {}\n         {}", self.what, self.remedy)
    }
}
