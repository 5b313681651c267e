//! `purser overspend`: the most that can have been spent beyond what was granted.

use clap::Args;
use purser_api::{
    GroupNumber, OverspendAnswer, OverspendFigures, OverspendQuery, PageLimit, RegionName,
};

use super::connection::Service;
use super::tables::{self, Column, Facts};
use crate::failure::CommandError;
use crate::output::Output;

/// Show the most that can have been spent beyond what was granted, by cause and by home.
#[derive(Debug, Args)]
pub(crate) struct Overspend {
    /// Only accounts whose home is in this region.
    #[arg(long)]
    region: Option<RegionName>,
    /// Only accounts of this group of the region that is asked.
    #[arg(long)]
    group: Option<GroupNumber>,
    /// How many tenants to name at most.
    #[arg(long, default_value = "10")]
    limit: PageLimit,
}

/// Asks for the bound.
pub(super) async fn run(
    args: Overspend,
    service: &Service,
    output: &Output,
) -> Result<(), CommandError> {
    let Overspend { region, group, limit } = args;
    let query = OverspendQuery { region, group, limit };
    let found = service.admin().overspend(&query, &service.read()).await;
    output.answer(&service.found(found)?, show)?;
    Ok(())
}

fn show(answer: &OverspendAnswer) -> String {
    let figures = &answer.figures;
    let unknown: Vec<String> = answer.unknown_regions.iter().map(ToString::to_string).collect();
    let unknown = Some(unknown.join(", ")).filter(|names| !names.is_empty());
    let facts = Facts::new()
        .with_some("NOT KNOWN OF", unknown)
        .with("bound", figures.bound)
        .with("ceiling", figures.ceiling)
        .with("realised", figures.by_cause.realised)
        .with("taken back", figures.by_cause.taken_back)
        .with("overdraft", figures.by_cause.overdraft)
        .with("failover", figures.by_cause.failover)
        .with("out", figures.outstanding)
        .with("stranded", figures.stranded)
        .with("allowed debt", figures.allowed_debt)
        .with("as of", tables::or_none(figures.as_of.as_ref().map(|it| &it.log_time)));
    let mut parts = vec![facts.text(), by_home(answer)];
    if !answer.top_tenants.is_empty() {
        parts.push(tenants(answer));
    }
    parts.join("\n\n")
}

fn by_home(answer: &OverspendAnswer) -> String {
    use Column::{Number, Text};
    let columns = [
        Text("HOME"),
        Number("BOUND"),
        Number("CEILING"),
        Number("OUT"),
        Number("STRANDED"),
        Text("WHERE"),
    ];
    let known = answer.by_region.iter().map(|(region, figures)| {
        vec![
            region.clone(),
            figures.bound.to_string(),
            figures.ceiling.to_string(),
            figures.outstanding.to_string(),
            figures.stranded.to_string(),
            allocated(figures),
        ]
    });
    let unknown = answer.unknown_regions.iter().map(|region| {
        let mut row = vec![region.to_string()];
        row.resize(columns.len(), "?".to_owned());
        row
    });
    tables::table(&columns, known.chain(unknown))
}

fn allocated(figures: &OverspendFigures) -> String {
    let parts = figures.allocated.iter().map(|(region, out)| format!("{out} in {region}"));
    tables::or_none(Some(parts.collect::<Vec<_>>().join(", ")).filter(|text| !text.is_empty()))
}

fn tenants(answer: &OverspendAnswer) -> String {
    use Column::{Number, Text};
    let columns = [
        Text("TENANT"),
        Text("UNIT"),
        Text("HOME"),
        Number("BOUND"),
        Number("REALISED"),
        Number("CEILING"),
        Number("OUT"),
    ];
    tables::table(
        &columns,
        answer.top_tenants.iter().map(|tenant| {
            vec![
                tenant.tenant.to_string(),
                tenant.unit.to_string(),
                tenant.home.to_string(),
                tenant.bound.to_string(),
                tenant.realised.to_string(),
                tenant.ceiling.to_string(),
                tenant.outstanding.to_string(),
            ]
        }),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_that_did_not_answer_is_never_shown_as_zero() {
        let answer = OverspendAnswer {
            unknown_regions: vec!["ap".parse().unwrap()],
            ..OverspendAnswer::default()
        };
        let text = show(&answer);
        assert!(text.starts_with("NOT KNOWN OF  ap\n"), "{text}");
        assert!(text.lines().any(|line| line.starts_with("ap ") && !line.contains('0')), "{text}");
    }
}
