//! Calls of cargo, printed as one would type them.

use std::fmt;
use std::path::Path;
use std::process::{Command, Stdio};

/// One call of cargo.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    env: Option<(&'static str, &'static str)>,
    args: Vec<String>,
}

impl Call {
    /// Makes a call from a line of arguments separated by spaces.
    pub(crate) fn new(line: &str) -> Call {
        Call { env: None, args: line.split_whitespace().map(String::from).collect() }
    }

    /// Adds arguments as they are, spaces and all.
    pub(crate) fn args<S: AsRef<str>>(mut self, args: impl IntoIterator<Item = S>) -> Call {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().into()));
        self
    }

    /// Sets an environment variable for the call.
    pub(crate) fn env(mut self, name: &'static str, value: &'static str) -> Call {
        self.env = Some((name, value));
        self
    }

    /// Returns the command to start, in the root of the repository.
    pub(crate) fn command(&self, root: &Path) -> Command {
        // The cargo that started us, so that every step uses one toolchain.
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command.args(&self.args).envs(self.env).current_dir(root);
        command
    }

    /// Prints the call and runs it to its end; its output goes where ours goes.
    pub(crate) fn run(&self, root: &Path) -> Result<(), String> {
        println!("$ {self}");
        match self.command(root).status() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("`{self}` ended with {status}")),
            Err(error) => Err(format!("`{self}` did not start: {error}")),
        }
    }

    /// Says whether the call succeeds, without showing anything.
    pub(crate) fn succeeds(&self, root: &Path) -> bool {
        let mut command = self.command(root);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((name, value)) = self.env {
            write!(f, "{name}={} ", quoted(value))?;
        }
        write!(f, "cargo")?;
        self.args.iter().try_for_each(|arg| write!(f, " {}", quoted(arg)))
    }
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:,".contains(c);
    if !word.is_empty() && word.chars().all(plain) { word.into() } else { format!("'{word}'") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_printed_as_one_would_type_them() {
        let call = Call::new("doc --no-deps").env("RUSTDOCFLAGS", "-D warnings").args(["two words"]);
        assert_eq!(call.to_string(), "RUSTDOCFLAGS='-D warnings' cargo doc --no-deps 'two words'");
    }

    #[test]
    fn a_failing_call_is_named() {
        assert!(Call::new("--version").succeeds(Path::new(".")));
        assert!(!Call::new("no-such-subcommand-anywhere").succeeds(Path::new(".")));
        let why = Call::new("--version").run(Path::new("nowhere")).unwrap_err();
        assert!(why.starts_with("`cargo --version` did not start: "), "{why}");
    }
}
