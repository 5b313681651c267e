//! `purser check-config`: whether `purser serve` would accept a file, without starting anything.

use std::path::{Path, PathBuf};

use purser_node::{NodeConfig, NodeSettings};
use serde::Serialize;

use crate::failure::CommandError;
use crate::output::Output;

/// Check a configuration file without starting anything. Exit code 64 if it is refused.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The file.
    file: PathBuf,
}

/// What stands out in an accepted file.
#[derive(Debug, Serialize)]
struct Accepted {
    node: u64,
    cluster: String,
    region: String,
    data_dir: PathBuf,
    listen: String,
    peers: usize,
    tokens: usize,
}

/// Checks a file.
pub(crate) fn run(args: &Args, output: &Output) -> Result<(), CommandError> {
    let (config, settings) = load(&args.file)?;
    let accepted = Accepted {
        node: config.node,
        cluster: config.cluster,
        region: config.region,
        data_dir: config.data_dir,
        listen: config.listen.to_string(),
        peers: settings.peers.len(),
        tokens: settings.tokens.len(),
    };
    output.answer(&accepted, |accepted| {
        let Accepted { node, cluster, region, listen, peers, tokens, .. } = accepted;
        format!(
            "{} is accepted: node {node} of {cluster} in {region}, API on {listen}, {peers} \
             peers, {tokens} tokens",
            args.file.display()
        )
    })?;
    Ok(())
}

/// Reads and checks a file.
pub(crate) fn load(file: &Path) -> Result<(NodeConfig, NodeSettings), CommandError> {
    let refused = |error| CommandError::settings(format!("{} is refused", file.display()), error);
    let config = NodeConfig::load(file).map_err(refused)?;
    let settings = config.validate().map_err(refused)?;
    Ok((config, settings))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `deploy/purser.toml`, from this crate's folder.
    const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../deploy/purser.toml");

    /// What a person reads about a file that differs from the example in one line.
    fn refusal(line: &str, instead: &str) -> String {
        let text = std::fs::read_to_string(EXAMPLE).unwrap();
        assert!(text.contains(line), "the example has no line {line:?}");
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("purser.toml");
        std::fs::write(&file, text.replace(line, instead)).unwrap();
        let error = load(&file).unwrap_err();
        assert_eq!(error.exit_code(), 64);
        let mut text = error.to_string();
        let mut cause = std::error::Error::source(&error);
        while let Some(error) = cause {
            text.push_str(&format!(": {error}"));
            cause = error.source();
        }
        text
    }

    #[test]
    fn the_example_is_accepted() {
        let (_, settings) = load(Path::new(EXAMPLE)).unwrap();
        assert_eq!(settings.peers.len(), 2);
        assert_eq!(settings.tokens.len(), 2);
    }

    #[test]
    fn a_refusal_names_the_key() {
        assert!(refusal("region = \"us\"", "region = \"US\"").contains("region"));
        assert!(refusal("shards = 16", "shards = 0").contains("shards"));
        assert!(refusal("shards = 16", "shard = 16").contains("shard"));
    }
}
