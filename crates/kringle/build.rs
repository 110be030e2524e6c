//! Finds out which commit is being built, so that reports can name it. Without git, or outside our own repository
//! (an unpacked archive inside somebody else's), it is `unknown`.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let manifest = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let is_ours = || {
        let top = git(&manifest, &["rev-parse", "--show-toplevel"])?;
        let ours = manifest.join("../..").canonicalize().ok()?;
        (Path::new(&top).canonicalize().ok()? == ours).then_some(())
    };
    let commit = is_ours().and_then(|()| {
        // In a worktree .git is a file, and these lie elsewhere: git knows.
        for file in ["HEAD", "logs/HEAD"] {
            let path = manifest.join(git(&manifest, &["rev-parse", "--git-path", file])?);
            if path.exists() {
                println!("cargo::rerun-if-changed={}", path.display());
            }
        }
        git(&manifest, &["rev-parse", "--short=12", "HEAD"])
    });
    println!("cargo::rustc-env=KRINGLE_COMMIT={}", commit.as_deref().unwrap_or("unknown"));
}

fn git(at: &Path, args: &[&str]) -> Option<String> {
    // A hook of git's sets these, and then they speak of another tree.
    let output = Command::new("git")
        .args(args)
        .current_dir(at)
        .env_remove("GIT_DIR")
        .env_remove("GIT_WORK_TREE")
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let text = text.trim();
    (output.status.success() && !text.is_empty()).then(|| text.to_owned())
}
