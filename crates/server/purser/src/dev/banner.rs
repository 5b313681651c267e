//! What a person sees first: where everything is, one call to paste, one fault to try.

use crate::dev::layout::DevLayout;
use crate::dev::{DEV_TOKEN, seed};

/// The lines of the banner: at most ten, so that it fits above the prompt of a small terminal.
pub(crate) fn lines(layout: &DevLayout, ephemeral: bool) -> Vec<String> {
    let front_door = format!("http://{}", layout.front_door);
    let mut lines = vec![
        format!("Purser {}", env!("CARGO_PKG_VERSION")),
        format!("DEV: loopback only, token {DEV_TOKEN}"),
        format!("API      {front_door}"),
    ];
    for (region, nodes) in &layout.regions {
        let nodes: Vec<String> = nodes.iter().map(|node| format!("http://{}", node.api)).collect();
        lines.push(format!("  {:<6} {}", region.as_str(), nodes.join(" ")));
    }
    let remark = if ephemeral { " (removed at the end)" } else { "" };
    lines.push(format!("Metrics  {front_door}/metrics"));
    lines.push(format!("Data     {}{remark}", layout.data.display()));
    lines.push(format!("Try      {}", curl(layout)));
    lines.push(format!("Break it {}", fault(layout)));
    lines
}

/// An authorize that works as pasted. Pasted again it answers the same, because the key is the
/// same: the first thing to learn about retries.
pub(crate) fn curl(layout: &DevLayout) -> String {
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
    let victim = layout.nodes().nth(1).or_else(|| layout.nodes().next());
    victim.map(|node| format!("purser dev kill {}{elsewhere}", node.name)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_banner_has_at_most_ten_lines_and_says_what_to_paste() {
        for port in [super::super::DEFAULT_BASE_PORT, 9_000] {
            let layout = DevLayout::new(port, Path::new("data/dev"));
            let lines = lines(&layout, true);
            assert!(lines.len() <= 10, "{lines:#?}");
            let text = lines.join("\n");
            let front_door = format!("http://127.0.0.1:{port}/v1/tenants/acme/holds");
            assert!(text.contains("DEV: loopback only, token dev"), "{text}");
            assert!(text.contains(&front_door), "{text}");
            assert!(text.contains("purser dev kill us/2"), "{text}");
            assert_eq!(text.contains("--base-port 9000"), port == 9_000, "{text}");
        }
    }
}
