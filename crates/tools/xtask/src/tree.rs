//! The files of the project, read once.
//!
//! It walks the folders that are the project's own, so that a file somebody left lying beside them
//! is no finding, and a new file is looked at before version control knows it. Only the question
//! what was *added* at the top is put to version control.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::steps::StepError;

/// What lies at the top.
const TOP_LEVEL: &[&str] = &[
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE",
    "README.md",
    "crates",
    "deploy",
    "docs",
    "terraform",
    "tests",
];

/// What lies at the top and is hidden. Other hidden things belong to some tool.
const TOP_LEVEL_HIDDEN: &[&str] =
    &[".cargo", ".ci", ".clippy.toml", ".config", ".deny.toml", ".gitignore", ".rustfmt.toml"];

/// A text file.
#[derive(Debug)]
pub(crate) struct SourceFile {
    /// From the top folder, with `/` between the parts.
    pub(crate) path: String,
    /// Its content.
    pub(crate) text: String,
}

/// All files of the project.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    /// What version control tracks at the top and is not agreed to lie there.
    pub(crate) strays: BTreeSet<String>,
    /// Every path: of files, and of the folders that hold them.
    pub(crate) paths: BTreeSet<String>,
    /// The files that are text, in no particular order.
    pub(crate) files: Vec<SourceFile>,
}

impl Tree {
    /// Reads everything below `root`.
    pub(crate) fn read(root: &Path) -> Result<Self, StepError> {
        let mut tree = Self { strays: strays(&tracked(root)), ..Self::default() };
        tree.read_folder(root, "")?;
        Ok(tree)
    }

    /// A tree of just these files, for tests of checks.
    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let mut tree = Self::default();
        for (path, text) in files {
            tree.paths.extend(Path::new(path).ancestors().map(|at| at.display().to_string()));
            tree.files.push(SourceFile { path: (*path).to_owned(), text: (*text).to_owned() });
        }
        tree
    }

    /// The text of one file.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.files.iter().find(|file| file.path == path).map(|file| file.text.as_str())
    }

    fn read_folder(&mut self, folder: &Path, prefix: &str) -> Result<(), StepError> {
        let unreadable =
            |source| StepError::Unreadable { path: folder.display().to_string(), source };
        for entry in fs::read_dir(folder).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let kind = entry.file_type().map_err(unreadable)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = format!("{prefix}{name}");
            if !belongs(prefix, &name, kind.is_dir()) {
                continue;
            }
            if kind.is_dir() {
                self.read_folder(&entry.path(), &format!("{path}/"))?;
                self.paths.insert(path);
                continue;
            }
            let bytes = fs::read(entry.path())
                .map_err(|source| StepError::Unreadable { path: path.clone(), source })?;
            self.paths.insert(path.clone());
            if let Ok(text) = String::from_utf8(bytes) {
                self.files.push(SourceFile { path, text });
            }
        }
        Ok(())
    }
}

/// Whether a file or folder is part of the project.
fn belongs(prefix: &str, name: &str, is_folder: bool) -> bool {
    if prefix.is_empty() {
        return TOP_LEVEL.contains(&name) || TOP_LEVEL_HIDDEN.contains(&name);
    }
    // Tools keep hidden folders of their own; hidden files may be ours, such as a `.clippy.toml`.
    !(is_folder && name.starts_with('.'))
}

/// The paths that version control tracks, a line each. An unpacked archive has none: nothing can
/// have been added to it.
fn tracked(root: &Path) -> String {
    let output = Command::new("git").current_dir(root).arg("ls-files").output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
}

/// The top-level names of tracked paths that are neither agreed nor hidden.
fn strays(tracked: &str) -> BTreeSet<String> {
    let names = tracked.lines().filter_map(|path| path.split('/').next());
    let strays = names.filter(|name| !name.starts_with('.') && !TOP_LEVEL.contains(name));
    strays.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_ours_belongs() {
        assert!(belongs("", "crates", true) && belongs("", ".ci", true));
        assert!(belongs("crates/core/", ".clippy.toml", false) && belongs("docs/", "data", true));
        assert!(!belongs("", "target", true) && !belongs("", "notes.md", false));
        assert!(!belongs("", ".git", true) && !belongs("terraform/", ".terraform", true));
    }

    #[test]
    fn what_is_tracked_at_the_top_and_not_agreed_is_a_stray() {
        let tracked = "README.md\ncrates/core/a.rs\n.ci/run\nscripts/a.sh\nscripts/b.sh\n";
        assert_eq!(strays(tracked), BTreeSet::from(["scripts".to_owned()]));
    }
}
