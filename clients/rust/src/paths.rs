//! The daemon's sockets to try, in turn, as the daemon and every other client choose them.

use std::env;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const NAME: &str = "agent.sock";

/// A path or a folder that was named is the only one: another one could be another daemon's, with other hooks.
pub fn candidates(path: Option<&Path>, runtime_dir: Option<&Path>) -> Vec<PathBuf> {
    if let Some(path) = path {
        return vec![path.to_path_buf()];
    }
    let named = runtime_dir.map(Path::to_path_buf).or_else(|| folder_of("HOOKLATCH_RUNTIME_DIR"));
    if let Some(folder) = named {
        return vec![folder.join(NAME)];
    }
    let session = folder_of("XDG_RUNTIME_DIR").filter(|folder| is_private(folder));
    let mut found: Vec<PathBuf> = session.into_iter().map(|folder| folder.join("hooklatch").join(NAME)).collect();
    if let Some(home) = folder_of("HOME") {
        found.push(home.join(".local/state/hooklatch/run").join(NAME));
    }
    found
}

fn folder_of(variable: &str) -> Option<PathBuf> {
    env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from)
}

fn is_private(folder: &Path) -> bool {
    match (fs::metadata(folder), fs::metadata("/proc/self")) {
        (Ok(status), Ok(own)) => {
            folder.is_absolute() && status.is_dir() && status.uid() == own.uid() && status.mode() & 0o777 == 0o700
        }
        _ => false,
    }
}
