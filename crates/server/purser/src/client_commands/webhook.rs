//! `purser webhook`: who is told of a region's entries, and what could not be delivered.

use clap::{Args, Subcommand};
use purser_api::{
    AttemptsMax, BecauseRequest, EntryKind, Moment, OverlapSeconds, Reason, RedriveLimit,
    RotateRequest, TenantName, WebhookAnswer, WebhookDeadLetter, WebhookDeadLetterAnswer,
    WebhookDeadLetterId, WebhookDeadLettersQuery, WebhookDiscardAnswer, WebhookDiscardRequest,
    WebhookEnableRequest, WebhookName, WebhookRedriveAnswer, WebhookRedriveRequest, WebhookRequest,
    WebhookSecret, WebhookStart, WebhookUrl, WebhooksAnswer,
};

use super::arguments::{Page, Safety, Why};
use super::connection::Service;
use super::tables::{self, Column, Facts};
use crate::failure::CommandError;
use crate::output::Output;

/// How many random bytes a secret has.
const SECRET_BYTES: usize = 32;

/// Look at webhooks, make, change and end them.
#[derive(Debug, Subcommand)]
pub(crate) enum WebhookAction {
    /// Have the region's entries told to a receiver.
    Add(Add),
    /// List the webhooks of the region.
    List,
    /// Show a webhook, and how far it is in each shard.
    Show(Named),
    /// Sign with another secret, and for a while with the one before too.
    Rotate(Rotate),
    /// Have events delivered.
    Enable(Enable),
    /// Have events wait.
    Disable(Disable),
    /// End a webhook, with its dead letters.
    Remove(Named),
    /// List what could not be delivered.
    DeadLetters(DeadLetters),
    /// Try a dead letter once more, or with `--all` all of them.
    Redrive(Redrive),
    /// Give a dead letter up for good: first with `--dry-run`, then with the `--confirm` it shows.
    Discard(Discard),
}

#[derive(Debug, Args)]
pub(crate) struct Named {
    /// The webhook.
    webhook: WebhookName,
}

#[derive(Debug, Args)]
pub(crate) struct Add {
    /// Its name.
    webhook: WebhookName,
    /// Where events go: https://host/path.
    #[arg(long, value_name = "ADDRESS")]
    to: WebhookUrl,
    /// What events are signed with. Random if left out, and shown once.
    #[arg(long)]
    secret: Option<WebhookSecret>,
    /// Only this tenant's events; may be given several times.
    #[arg(long = "tenant", value_name = "TENANT")]
    tenants: Vec<TenantName>,
    /// Only entries of this kind; may be given several times.
    #[arg(long = "kind", value_name = "KIND")]
    kinds: Vec<EntryKind>,
    /// How often an event is tried.
    #[arg(long, default_value_t = AttemptsMax::DEFAULT)]
    attempts_max: AttemptsMax,
    /// Where to begin: `now` or `beginning`.
    #[arg(long, default_value = "now")]
    from: WebhookStart,
    /// Why, for whoever reads its history.
    #[arg(long)]
    reason: Option<Reason>,
}

#[derive(Debug, Args)]
pub(crate) struct Rotate {
    /// The webhook.
    webhook: WebhookName,
    /// The new secret. Random if left out, and shown once.
    #[arg(long)]
    secret: Option<WebhookSecret>,
    /// For how many seconds the one before still signs; 0 if others know it.
    #[arg(long, default_value_t)]
    overlap: OverlapSeconds,
    /// Why, for whoever reads its history.
    #[arg(long)]
    reason: Option<Reason>,
}

#[derive(Debug, Args)]
pub(crate) struct Enable {
    /// The webhook.
    webhook: WebhookName,
    /// Why, for whoever reads its history.
    #[arg(long)]
    reason: Option<Reason>,
}

#[derive(Debug, Args)]
pub(crate) struct Disable {
    /// The webhook.
    webhook: WebhookName,
    #[command(flatten)]
    why: Why,
}

#[derive(Debug, Args)]
pub(crate) struct DeadLetters {
    /// The webhook.
    webhook: WebhookName,
    #[command(flatten)]
    page: Page,
}

#[derive(Debug, Args)]
pub(crate) struct Redrive {
    /// The webhook.
    webhook: WebhookName,
    /// The dead letter: tenant~unit~sequence.
    #[arg(value_name = "DEAD LETTER", required_unless_present = "all", conflicts_with = "all")]
    id: Option<WebhookDeadLetterId>,
    /// All that are dead by now, a thousand at a time, until none is left.
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    why: Why,
}

#[derive(Debug, Args)]
pub(crate) struct Discard {
    #[command(flatten)]
    letter: Letter,
    #[command(flatten)]
    why: Why,
    #[command(flatten)]
    safety: Safety,
}

#[derive(Debug, Args)]
pub(crate) struct Letter {
    /// The webhook.
    webhook: WebhookName,
    /// The dead letter: tenant~unit~sequence.
    #[arg(value_name = "DEAD LETTER")]
    id: WebhookDeadLetterId,
}

/// Runs a command about webhooks.
pub(super) async fn run(
    action: WebhookAction,
    service: &Service,
    output: &Output,
) -> Result<(), CommandError> {
    let (webhooks, call) = (service.admin().webhooks(), service.read());
    match action {
        WebhookAction::Add(args) => return add(args, service, output).await,
        WebhookAction::List => {
            output.answer(&service.found(webhooks.list(&call).await)?, show_all)?;
        }
        WebhookAction::Show(Named { webhook }) => {
            output.answer(&service.found(webhooks.get(&webhook, &call).await)?, show)?;
        }
        WebhookAction::Rotate(Rotate { webhook, secret, overlap, reason }) => {
            let secret = secret_or_random(secret, output)?;
            let body = RotateRequest { secret, overlap_seconds: overlap, reason };
            let rotated = webhooks.rotate(&webhook, &body, &call).await;
            output.answer(&service.said(rotated)?, show)?;
        }
        WebhookAction::Enable(Enable { webhook, reason }) => {
            let enabled = webhooks.enable(&webhook, &WebhookEnableRequest { reason }, &call).await;
            output.answer(&service.said(enabled)?, show)?;
        }
        WebhookAction::Disable(Disable { webhook, why }) => {
            let body = BecauseRequest { reason: why.reason };
            let disabled = webhooks.disable(&webhook, &body, &call).await;
            output.answer(&service.said(disabled)?, show)?;
        }
        WebhookAction::Remove(Named { webhook }) => {
            let removed = service.said(webhooks.remove(&webhook, &call).await)?;
            output.answer(&removed, |removed| {
                Facts::new().with("removed", &removed.webhook).text()
            })?;
        }
        WebhookAction::DeadLetters(DeadLetters { webhook, page: Page { limit, cursor } }) => {
            let query = WebhookDeadLettersQuery { limit, cursor, shard: None };
            let found = webhooks.dead_letters(&webhook, &query, &call).await;
            service.list(found, output, show_letters)?;
        }
        WebhookAction::Redrive(Redrive { webhook, id: None, why, all: _ }) => {
            let ask = async |died_before| {
                let (reason, limit) = (why.reason.clone(), RedriveLimit::default());
                let body = WebhookRedriveRequest { reason, limit, died_before };
                let answered = webhooks.redrive_all(&webhook, &body, &service.read()).await;
                service.done(answered, output)
            };
            let redriven = redrive_all(ask, output).await?;
            output.answer(&redriven, |it| show_redriven(it).text())?;
        }
        WebhookAction::Redrive(Redrive { webhook, id: Some(id), why, all: _ }) => {
            let body = BecauseRequest { reason: why.reason };
            let redriven = webhooks.redrive((&webhook, &id), &body, &call).await;
            output.answer(&service.said(redriven)?, |it| show_letter(it).text())?;
        }
        WebhookAction::Discard(Discard { letter: Letter { webhook, id }, why, safety }) => {
            let Safety { dry_run, confirm } = safety;
            let body = WebhookDiscardRequest { reason: why.reason, dry_run, confirm };
            let discarded = webhooks.discard((&webhook, &id), &body, &call).await;
            output.answer(&service.said(discarded)?, show_discarded)?;
        }
    }
    Ok(())
}

async fn add(args: Add, service: &Service, output: &Output) -> Result<(), CommandError> {
    let Add { webhook, to, secret, tenants, kinds, attempts_max, from, reason } = args;
    let secret = secret_or_random(secret, output)?;
    let body =
        WebhookRequest { webhook, url: to, secret, tenants, kinds, attempts_max, from, reason };
    let made = service.admin().webhooks().create(&body, &service.read()).await;
    Ok(output.answer(&service.said(made)?, show)?)
}

/// Asks until none is left of those that were dead at first. What dies again meanwhile stays dead.
async fn redrive_all(
    mut ask: impl AsyncFnMut(Option<Moment>) -> Result<WebhookRedriveAnswer, CommandError>,
    output: &Output,
) -> Result<WebhookRedriveAnswer, CommandError> {
    let mut sum = ask(None).await?;
    let progress = output.progress("redriven", Some(sum.redriven.saturating_add(sum.left)));
    progress.advance(sum.redriven);
    while sum.left > 0 {
        let more = ask(Some(sum.died_before.clone())).await?;
        progress.advance(more.redriven);
        sum.redriven = sum.redriven.saturating_add(more.redriven);
        sum.left = more.left;
        // Somebody else is at them.
        if more.redriven == 0 {
            break;
        }
    }
    progress.finish(format_args!("{} redriven, {} left", sum.redriven, sum.left));
    Ok(sum)
}

/// A secret that nobody has named is shown before it is sent: whatever becomes of the call, the same command
/// with it completes it.
fn secret_or_random(
    secret: Option<WebhookSecret>,
    output: &Output,
) -> Result<WebhookSecret, CommandError> {
    if let Some(secret) = secret {
        return Ok(secret);
    }
    let mut bytes = [0; SECRET_BYTES];
    getrandom::fill(&mut bytes)
        .map_err(|error| CommandError::Failed(format!("no randomness: {error}")))?;
    let secret = WebhookSecret::of(&bytes)
        .ok_or_else(|| CommandError::Failed("the secret has another length".to_owned()))?;
    output.note(format_args!("secret, shown this once: {}", secret.as_str()));
    Ok(secret)
}

fn show_letter(answer: &WebhookDeadLetterAnswer) -> Facts {
    Facts::new().with("dead letter", &answer.dead_letter_id).with("status", answer.status)
}

fn show_redriven(answer: &WebhookRedriveAnswer) -> Facts {
    let facts = Facts::new().with("webhook", &answer.webhook);
    facts.with("redriven", answer.redriven).with("left", answer.left)
}

fn show_discarded(answer: &WebhookDiscardAnswer) -> String {
    let dry = tables::dry_run(answer.dry_run, answer.confirm.as_ref()).text();
    let letter = show_letter(&answer.answer).text();
    if dry.is_empty() { letter } else { format!("{dry}\n{letter}") }
}

fn show_all(answer: &WebhooksAnswer) -> String {
    use Column::{Number, Text};
    let columns =
        [Text("WEBHOOK"), Text("STATUS"), Text("TO"), Number("PARKED"), Number("DEAD LETTERS")];
    let rows = answer.items.iter().map(|it| {
        let parked: u64 = it.shards.iter().map(|shard| shard.parked).sum();
        let dead: u64 = it.shards.iter().map(|shard| shard.dead_letters).sum();
        let (name, status, url) =
            (it.webhook.to_string(), it.status.to_string(), it.url.to_string());
        vec![name, status, url, parked.to_string(), dead.to_string()]
    });
    tables::table(&columns, rows)
}

fn show(answer: &WebhookAnswer) -> String {
    use Column::{Number, Text};
    let facts = Facts::new().with("webhook", &answer.webhook).with("status", answer.status);
    let facts = facts.with("to", &answer.url).with("tenants", or_all(&answer.tenants));
    let facts = facts.with("kinds", or_all(&answer.kinds));
    let facts = facts.with("attempts max", answer.attempts_max);
    let facts = facts.with("secrets", answer.secrets_count).with("made at", &answer.created_at);
    let columns = [
        Number("SHARD"),
        Number("PARKED"),
        Number("DEAD LETTERS"),
        Number("REDRIVEN"),
        Text("DISABLED"),
        Text("LAST ERROR"),
    ];
    let rows = answer.shards.iter().map(|it| {
        vec![
            it.shard.to_string(),
            it.parked.to_string(),
            it.dead_letters.to_string(),
            it.redriven.to_string(),
            tables::or_none(it.disabled.as_ref()),
            tables::or_none(it.last_error.as_ref()),
        ]
    });
    format!("{}\n\n{}{}", facts.text(), tables::table(&columns, rows), show_history(answer))
}

fn show_history(answer: &WebhookAnswer) -> String {
    use Column::{Number, Text};
    let columns =
        [Text("AT"), Number("SHARD"), Text("ACT"), Text("BY"), Text("DEAD LETTER"), Text("REASON")];
    let acts = answer.shards.iter();
    let acts = acts.flat_map(|it| it.history.iter().map(move |act| (act, it.shard)));
    let rows: Vec<_> = acts
        .map(|(it, shard)| {
            vec![
                it.at.to_string(),
                shard.to_string(),
                it.act.to_string(),
                tables::or_none(it.actor.as_ref()),
                tables::or_none(it.dead_letter_id.as_ref()),
                tables::or_none(it.reason.as_ref()),
            ]
        })
        .collect();
    if rows.is_empty() {
        String::new()
    } else {
        format!("\n\n{}", tables::table(&columns, rows.into_iter()))
    }
}

fn or_all<T: ToString>(some: &[T]) -> String {
    if some.is_empty() {
        return "all".to_owned();
    }
    some.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

fn show_letters(letters: &[WebhookDeadLetter]) -> String {
    use Column::{Number, Text};
    let columns =
        [Text("DEAD LETTER"), Text("STATUS"), Number("ATTEMPTS"), Text("DIED AT"), Text("ERROR")];
    let rows = letters.iter().map(|it| {
        vec![
            it.dead_letter_id.to_string(),
            it.status.to_string(),
            it.attempts.to_string(),
            it.died_at.to_string(),
            it.error.clone(),
        ]
    });
    tables::table(&columns, rows)
}

#[cfg(test)]
mod tests {
    use purser_types::LogTime;

    use super::*;
    use crate::output::Format;

    #[tokio::test]
    async fn all_dead_letters_are_redriven_page_by_page_and_each_page_names_the_first_ones_time() {
        let answer = |redriven, left| WebhookRedriveAnswer {
            webhook: "billing".parse().unwrap(),
            redriven,
            left,
            died_before: Moment(LogTime::ZERO),
        };
        let mut pages = vec![answer(500, 0), answer(1_000, 500), answer(1_000, 1_500)];
        let mut asked = Vec::new();
        let ask = async |died_before: Option<Moment>| {
            asked.push(died_before);
            Ok(pages.pop().unwrap())
        };
        let sum = redrive_all(ask, &Output::new(Format::People)).await.unwrap();
        assert_eq!((sum.redriven, sum.left), (2_500, 0));
        let time = Some(Moment(LogTime::ZERO));
        assert_eq!(asked, [None, time.clone(), time]);
    }
}
