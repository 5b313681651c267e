//! What a person sees first: where everything is, one call to paste, one fault to try.

use serde::Serialize;

use crate::dev::layout::DevLayout;
use crate::dev::{DEV_TOKEN, seed};

/// Where everything of a development cluster is.
#[derive(Debug, Serialize)]
pub(crate) struct Banner {
    version: &'static str,
    token: &'static str,
    /// The front door.
    api: String,
    /// The nodes of each region.
    regions: Vec<RegionApi>,
    metrics: String,
    data: String,
    /// Whether the data is removed at the end.
    ephemeral: bool,
    /// A call to paste.
    try_it: String,
    /// A fault to try.
    break_it: String,
}

/// The nodes of a region.
#[derive(Debug, Serialize)]
struct RegionApi {
    region: String,
    api: Vec<String>,
}

impl Banner {
    /// What there is to say about a layout.
    pub(crate) fn of(layout: &DevLayout, ephemeral: bool) -> Self {
        let api = format!("http://{}", layout.front_door);
        let regions = layout.regions.iter().map(|(region, nodes)| {
            let api = nodes.iter().map(|node| format!("http://{}", node.api)).collect();
            RegionApi { region: region.to_string(), api }
        });
        Self {
            version: env!("CARGO_PKG_VERSION"),
            token: DEV_TOKEN,
            regions: regions.collect(),
            metrics: format!("{api}/metrics"),
            data: layout.data.display().to_string(),
            ephemeral,
            try_it: curl(layout),
            break_it: fault(layout),
            api,
        }
    }

    /// The banner for people: at most ten lines, so that it fits above the prompt of a small
    /// terminal.
    pub(crate) fn text(&self) -> String {
        let Self { version, token, api, metrics, data, try_it, break_it, .. } = self;
        let mut lines = vec![
            format!("Purser {version}"),
            format!("DEV: loopback only, token {token}"),
            format!("API      {api}"),
        ];
        for RegionApi { region, api } in &self.regions {
            lines.push(format!("  {region:<6} {}", api.join(" ")));
        }
        let remark = if self.ephemeral { " (removed at the end)" } else { "" };
        lines.push(format!("Metrics  {metrics}"));
        lines.push(format!("Data     {data}{remark}"));
        lines.push(format!("Try      {try_it}"));
        lines.push(format!("Break it {break_it}"));
        lines.join("\n")
    }
}

/// An authorize that works as pasted. Pasted again it answers the same, because the key is the
/// same: the first thing to learn about retries.
fn curl(layout: &DevLayout) -> String {
    format!(
        "curl -s http://{}/v1/tenants/{}/holds -H 'Authorization: Bearer {DEV_TOKEN}' \
         -H 'Content-Type: application/json' -H 'Idempotency-Key: try-1' -d '{{\"amount\":30}}'",
        layout.front_door,
        seed::FIRST_TENANT,
    )
}

fn fault(layout: &DevLayout) -> String {
    let port = layout.front_door.port();
    let elsewhere = if port == super::DEFAULT_BASE_PORT {
        String::new()
    } else {
        format!(" --base-port {port}")
    };
    // The first region is home of the tenant of the call above; another one shows more.
    let victim = layout.regions.iter().map(|(region, _)| region).nth(1);
    victim.map(|region| format!("purser dev cut {region}{elsewhere}")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::dev::layout::NodesPerRegion;

    #[test]
    fn the_banner_has_at_most_ten_lines_and_says_what_to_paste() {
        for port in [super::super::DEFAULT_BASE_PORT, 9_000] {
            let layout = DevLayout::new(port, Path::new("data/dev"), NodesPerRegion::Three);
            let text = Banner::of(&layout, true).text();
            assert!(text.lines().count() <= 10, "{text}");
            let front_door = format!("http://127.0.0.1:{port}/v1/tenants/acme/holds");
            assert!(text.contains("DEV: loopback only, token dev"), "{text}");
            assert!(text.contains(&front_door), "{text}");
            assert!(text.contains("purser dev cut eu"), "{text}");
            assert_eq!(text.contains("--base-port 9000"), port == 9_000, "{text}");
        }
    }
}
