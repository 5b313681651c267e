//! `purser check-config`: whether `purser serve` or `purser router` would accept a file, without starting
//! anything.

use std::path::{Path, PathBuf};

use purser_node::{ConfigError, NodeConfig, NodeSettings, RouterConfig, RouterSettings};
use serde::Serialize;

use crate::failure::CommandError;
use crate::output::Output;

/// Check a configuration file without starting anything. Exit code 64 if it is refused.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The file.
    file: PathBuf,
    /// It is a router's, for `purser router`.
    #[arg(long)]
    router: bool,
}

/// What stands out in an accepted file.
#[derive(Debug, Serialize)]
struct Accepted {
    node: u64,
    cluster: String,
    region: String,
    /// Nothing for a router, which keeps no data.
    data_dir: Option<PathBuf>,
    listen: String,
    peers: usize,
    tokens: usize,
}

/// Checks a file.
pub(crate) fn run(args: &Args, output: &Output) -> Result<(), CommandError> {
    let accepted = if args.router { accept_router(&args.file)? } else { accept(&args.file)? };
    let kind = if args.router { "router" } else { "node" };
    output.answer(&accepted, |accepted| {
        let Accepted { node, cluster, region, listen, peers, tokens, .. } = accepted;
        format!(
            "{} is accepted: {kind} {node} of {cluster} in {region}, API on {listen}, {peers} \
             peers, {tokens} tokens",
            args.file.display()
        )
    })?;
    Ok(())
}

fn accept(file: &Path) -> Result<Accepted, CommandError> {
    let (config, settings) = load(file)?;
    Ok(Accepted {
        node: config.node,
        cluster: config.cluster,
        region: config.region,
        data_dir: Some(config.data_dir),
        listen: config.listen.to_string(),
        peers: settings.peers.len(),
        tokens: settings.tokens.len(),
    })
}

fn accept_router(file: &Path) -> Result<Accepted, CommandError> {
    let (config, settings) = load_router(file)?;
    Ok(Accepted {
        node: config.node,
        cluster: config.cluster,
        region: config.region,
        data_dir: None,
        listen: config.listen.to_string(),
        peers: settings.peers.len(),
        tokens: settings.tokens.len(),
    })
}

/// Reads and checks a node's file.
pub(crate) fn load(file: &Path) -> Result<(NodeConfig, NodeSettings), CommandError> {
    let config = NodeConfig::load(file).map_err(|error| refused(file, error))?;
    let settings = config.validate().map_err(|error| refused(file, error))?;
    Ok((config, settings))
}

/// Reads and checks a router's file.
pub(crate) fn load_router(file: &Path) -> Result<(RouterConfig, RouterSettings), CommandError> {
    let config = RouterConfig::load(file).map_err(|error| refused(file, error))?;
    let settings = config.validate().map_err(|error| refused(file, error))?;
    Ok((config, settings))
}

fn refused(file: &Path, error: ConfigError) -> CommandError {
    CommandError::settings(format!("{} is refused", file.display()), error)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `deploy/purser.toml`, from this crate's folder.
    const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../deploy/purser.toml");

    /// `deploy/router.toml`.
    const EXAMPLE_OF_ROUTER: &str =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../../deploy/router.toml");

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
    fn the_example_of_a_router_is_accepted() {
        let (_, settings) = load_router(Path::new(EXAMPLE_OF_ROUTER)).unwrap();
        assert_eq!((settings.peers.len(), settings.regions.len()), (3, 3));
    }

    #[test]
    fn a_refusal_names_the_key() {
        assert!(refusal("region = \"us\"", "region = \"US\"").contains("region"));
        assert!(refusal("shards = 16", "shards = 0").contains("shards"));
        assert!(refusal("shards = 16", "shard = 16").contains("shard"));
    }
}
