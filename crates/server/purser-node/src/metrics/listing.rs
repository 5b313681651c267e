//! The list of all metrics, as `docs/metrics.md` has it: a test holds both together.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;

use metrics::{
    Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit,
    with_local_recorder,
};

/// What stands before the list.
const BEGINNING: &str = "# Metrics

What each node tells at `/metrics`, in the format of Prometheus.
`node` is a label of all of them; others are named in the meaning.
A tenant is never a label.
With a read model there are those of [its projectors](postgres.md) as well.

| metric | kind | unit | meaning |
|---|---|---|---|
";

/// Hears what metrics mean, and records nothing.
#[derive(Default)]
struct Listing(RefCell<BTreeMap<String, String>>);

impl Listing {
    fn add(&self, kind: &str, key: &KeyName, unit: Option<Unit>, meaning: &SharedString) {
        let unit = unit.map_or("", |unit| unit.as_str());
        let row = format!("| `{}` | {kind} | {unit} | {meaning} |\n", key.as_str());
        let before = self.0.borrow_mut().insert(key.as_str().to_owned(), row);
        assert_eq!(before, None, "described twice");
    }
}

impl Recorder for Listing {
    fn describe_counter(&self, key: KeyName, unit: Option<Unit>, meaning: SharedString) {
        self.add("counter", &key, unit, &meaning);
    }

    fn describe_gauge(&self, key: KeyName, unit: Option<Unit>, meaning: SharedString) {
        self.add("gauge", &key, unit, &meaning);
    }

    fn describe_histogram(&self, key: KeyName, unit: Option<Unit>, meaning: SharedString) {
        self.add("histogram", &key, unit, &meaning);
    }

    fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
        Counter::noop()
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

fn described() -> BTreeMap<String, String> {
    let listing = Listing::default();
    with_local_recorder(&listing, super::describe);
    listing.0.into_inner()
}

#[test]
fn every_metric_is_described() {
    let described = described();
    for source in
        [include_str!("../metrics.rs"), include_str!("groups.rs"), include_str!("regions.rs")]
    {
        // A name is a constant, which ends its line.
        let names = source.lines().filter_map(|line| line.split_once(": &str = \"purser_"));
        for (constant, name) in names {
            let name = format!("purser_{}", name.trim_end_matches("\";"));
            assert!(described.contains_key(&name), "{constant} is not described");
        }
    }
}

#[test]
fn the_documentation_lists_every_metric() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/metrics.md");
    let rows: String = described().into_values().collect();
    purser_expect::check(&path, &format!("{BEGINNING}{rows}"));
}
