//! Nodes in processes of their own, started as people start them.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use ureq::Agent;
use ureq::http::Request;

use crate::{Run, command, kringle};

/// Longer than anything here should take, on a busy machine as well.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// A folder that is gone with this.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("kringle-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder for the test");
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A node in a process of its own. It is killed when this is dropped.
pub(crate) struct Started {
    child: Child,
    pub(crate) url: String,
    pub(crate) peers: String,
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Started {
    /// Starts a node with a directory of its own and waits until it listens.
    pub(crate) fn new(data: &Path, more: &[&str]) -> Started {
        let ready = data.with_extension("ready");
        let _ = std::fs::remove_file(&ready);
        let child = started(data, &ready, more).spawn().expect("the binary was built for this test");
        let mut node = Started { child, url: String::new(), peers: String::new() };
        let found: Value = until("the node listens", || {
            serde_json::from_str(&std::fs::read_to_string(&ready).unwrap_or_default()).ok()
        });
        let text = |value: &Value| value.as_str().map(String::from);
        node.url = text(&found["http"]).expect("it has a port for clients");
        node.peers = text(&found["peers"][0]).expect("it has a port for peers");
        node
    }

    /// Starts a node and waits until it is part of a ring.
    pub(crate) fn up(data: &Path, more: &[&str]) -> Started {
        let node = Started::new(data, more);
        node.until(&["status"], |text| text.contains("up"));
        node
    }

    pub(crate) fn run(&self, line: &[&str]) -> Run {
        kringle(&[line, &["--node", &self.url, "--timeout", "5s"]].concat())
    }

    /// Repeats a command until it succeeds and what it prints is as wanted.
    pub(crate) fn until(&self, line: &[&str], wanted: impl Fn(&str) -> bool) -> String {
        until(&format!("{line:?}"), || {
            let run = self.run(line);
            (run.code == Some(0) && wanted(&run.stdout)).then_some(run.stdout)
        })
    }

    /// Sends a request and returns its status and body. Status 0: no answer.
    pub(crate) fn http(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let config = Agent::config_builder().http_status_as_error(false).proxy(None);
        let agent = config.timeout_global(Some(LONG)).build().new_agent();
        let request = Request::builder().method(method).uri(format!("http://{}{path}", self.url)).body(body);
        match agent.run(request.expect("a request")) {
            Ok(mut answer) => {
                (answer.status().as_u16(), answer.body_mut().read_to_string().unwrap_or_default())
            }
            Err(_) => (0, String::new()),
        }
    }

    /// Sends a signal, such as `STOP`.
    #[cfg(unix)]
    pub(crate) fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let sent = std::process::Command::new("kill").args(["-s", name, &id]).status();
        assert!(sent.is_ok_and(|status| status.success()), "SIG{name}");
    }
}

/// Starts a node that ends by itself, and returns how.
pub(crate) fn ended(data: &Path, more: &[&str]) -> Run {
    let child = started(data, &data.with_extension("ready"), more).stderr(Stdio::piped()).spawn();
    let child = child.expect("the binary was built for this test");
    let mut node = Started { child, url: String::new(), peers: String::new() };
    let status = until("the node ends", || node.child.try_wait().expect("it can be waited for"));
    let mut stderr = String::new();
    let said = node.child.stderr.as_mut().expect("stderr is a pipe").read_to_string(&mut stderr);
    said.expect("all output is UTF-8");
    Run { code: status.code(), stdout: String::new(), stderr }
}

pub(crate) fn started(data: &Path, ready: &Path, more: &[&str]) -> std::process::Command {
    let (data, ready) = (data.display().to_string(), ready.display().to_string());
    let fixed = ["start", "--cluster", "c", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"];
    let places = ["--data", &data, "--ready-file", &ready];
    let mut command = command(&[&fixed[..], &places, more].concat());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

pub(crate) fn until<T>(what: &str, mut try_it: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    while start.elapsed() < LONG {
        if let Some(found) = try_it() {
            return found;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("not within {LONG:?}: {what}");
}
