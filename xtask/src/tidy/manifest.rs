//! As much of a `Cargo.toml` as the rules need: the package's name and what it depends on.

/// What a manifest says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Manifest {
    /// The name of the package; a workspace alone has none.
    pub(super) package: Option<String>,
    /// Everything named in any table of dependencies.
    pub(super) dependencies: Vec<Dependency>,
}

/// Something depended on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Dependency {
    /// The package, also where the manifest gives it another name.
    pub(super) name: String,
    /// Where it is named.
    pub(super) line: usize,
    /// Whether it is found by a path: then it is ours.
    pub(super) by_path: bool,
}

/// Where in the manifest a line is.
enum Section {
    Package,
    Dependencies,
    /// A table of its own for one dependency, by its place in the list.
    Dependency(usize),
    Other,
}

impl Manifest {
    /// Reads a manifest. What the rules do not need, mistakes included, is skipped: cargo judges those.
    pub(super) fn parse(text: &str) -> Manifest {
        let mut manifest = Manifest::default();
        let mut section = Section::Other;
        for (line, entry) in entries(text) {
            if let Some(header) = entry.strip_prefix('[') {
                section = manifest.section(header.trim_end_matches(']'), line);
            } else if let Some((key, value)) = split_outside(&entry, '=') {
                manifest.take(&section, &segments(key), value.trim(), line);
            }
        }
        manifest
    }

    fn section(&mut self, header: &str, line: usize) -> Section {
        let names = segments(header);
        let is_table = |name: &String| name.ends_with("dependencies");
        match names.as_slice() {
            [name] if name == "package" => Section::Package,
            [.., last] if is_table(last) => Section::Dependencies,
            [.., table, name] if is_table(table) => Section::Dependency(self.dependency(name, line)),
            _ => Section::Other,
        }
    }

    fn take(&mut self, section: &Section, key: &[String], value: &str, line: usize) {
        match (section, key) {
            (Section::Package, [key]) if key == "name" => self.package = Some(unquoted(value)),
            (Section::Dependencies, [name]) => {
                let at = self.dependency(name, line);
                if let Some(table) = value.strip_prefix('{') {
                    for item in split_all_outside(table.trim_end_matches('}'), ',') {
                        if let Some((key, value)) = split_outside(item, '=') {
                            self.detail(at, key.trim(), value.trim());
                        }
                    }
                }
            }
            (Section::Dependencies, [name, key]) => {
                let at = self.dependency(name, line);
                self.detail(at, key, value);
            }
            (Section::Dependency(at), [key]) => self.detail(*at, key, value),
            _ => {}
        }
    }

    /// Returns the place of a dependency in the list. Several lines may speak of one.
    fn dependency(&mut self, name: &str, line: usize) -> usize {
        self.dependencies.iter().position(|known| known.name == name).unwrap_or_else(|| {
            self.dependencies.push(Dependency { name: name.into(), line, by_path: false });
            self.dependencies.len() - 1
        })
    }

    fn detail(&mut self, at: usize, key: &str, value: &str) {
        match key {
            "path" => self.dependencies[at].by_path = true,
            "package" => self.dependencies[at].name = unquoted(value),
            _ => {}
        }
    }
}

/// Returns headers and entries with their first line; an array over several lines makes one entry.
fn entries(text: &str) -> Vec<(usize, String)> {
    let mut entries: Vec<(usize, String)> = Vec::new();
    let mut depth = 0;
    for (at, line) in text.lines().enumerate() {
        let line = split_outside(line, '#').map_or(line, |(before, _)| before).trim();
        match entries.last_mut() {
            Some((_, entry)) if depth > 0 => entry.push_str(line),
            _ if line.is_empty() => continue,
            _ => entries.push((at + 1, line.into())),
        }
        let count = |bracket| split_all_outside(line, bracket).len() as isize;
        depth += count('[') - count(']');
    }
    entries
}

/// Splits at every `separator` that is not within quotes.
fn split_all_outside(text: &str, separator: char) -> Vec<&str> {
    let (mut parts, mut start, mut quote) = (Vec::new(), 0, None);
    for (at, c) in text.char_indices() {
        match quote {
            Some(open) if c == open => quote = None,
            Some(_) => {}
            None if c == '"' || c == '\'' => quote = Some(c),
            None if c == separator => {
                parts.push(&text[start..at]);
                start = at + c.len_utf8();
            }
            None => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

/// Splits at the first `separator` that is not within quotes.
fn split_outside(text: &str, separator: char) -> Option<(&str, &str)> {
    let first = split_all_outside(text, separator)[0];
    Some((first, text.get(first.len() + separator.len_utf8()..)?))
}

/// Returns the names of a dotted key.
fn segments(key: &str) -> Vec<String> {
    split_all_outside(key, '.').into_iter().map(unquoted).collect()
}

fn unquoted(text: &str) -> String {
    text.trim().trim_matches(['"', '\'']).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_name_a_dependency_is_read() {
        let manifest = Manifest::parse(
            r#"
[package]
name = "sample"   # not "another"
[features]
default = ["clap"]
[dependencies]
plain = "1"
shared.workspace = true
table = { version = "1", features = [
    "path = no",
    "b",
] }
ours = { path = "../ours", version = "0.1" }
dotted.version = "1"
dotted.path = "../dotted"
renamed = { package = "real", version = "1" }
[dependencies.own-table]
version = "1"
features = ["c"]
[target.'cfg(target_os = "linux.x")'.dev-dependencies]
linux = "1"
[build-dependencies]
"quoted" = "1"
[workspace.dependencies]
everywhere = "1"
[[bin]]
name = "other"
[profile.dev.package.plain]
opt-level = 3
"#,
        );
        assert_eq!(manifest.package.as_deref(), Some("sample"));
        let found: Vec<(&str, usize, bool)> =
            manifest.dependencies.iter().map(|d| (d.name.as_str(), d.line, d.by_path)).collect();
        assert_eq!(
            found,
            [
                ("plain", 7, false),
                ("shared", 8, false),
                ("table", 9, false),
                ("ours", 13, true),
                ("dotted", 14, true),
                ("real", 16, false),
                ("own-table", 17, false),
                ("linux", 21, false),
                ("quoted", 23, false),
                ("everywhere", 25, false),
            ]
        );
    }
}
