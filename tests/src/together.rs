//! Calls that race one another.

use tokio::task::JoinSet;

/// Starts all at once and returns what each came to, in the order given.
pub async fn at_once<F>(calls: impl IntoIterator<Item = F>) -> Vec<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    let mut running = JoinSet::new();
    for (place, call) in calls.into_iter().enumerate() {
        running.spawn(async move { (place, call.await) });
    }
    let mut ended = running.join_all().await;
    ended.sort_by_key(|(place, _)| *place);
    ended.into_iter().map(|(_, output)| output).collect()
}
