//! A guard for held credits.
//!
//! ```text
//!            capture, final                 drop
//!  Held ────────────────────▶ Ended    Held ────▶ a release is sent in the background
//!   ▲ │        release
//!   │ └─────────────────────▶ Ended
//!   └── capture refused
//! ```
//!
//! Invariant: no release is sent once a capture is on its way, unless the service refused that
//! capture. A capture says that the work was done, and a release that overtook it would give the
//! credits away. What is neither captured nor released then ends at the hold's deadline.

use purser_api::{CaptureAnswer, CaptureRequest, Hold, HoldAnswer, ReleaseRequest};
use purser_types::IdempotencyKey;
use tokio::runtime::Handle;

use crate::account::Account;
use crate::call::{Answer, Call, random_key};
use crate::error::ClientError;

/// Credits set aside for one piece of work, given back when this is dropped unless they were
/// captured or released.
#[derive(Debug)]
#[must_use = "dropping it releases the credits"]
pub struct HeldCredits {
    account: Account,
    hold: Hold,
    /// One key for all releases of this guard, so that they are one change however often sent.
    release_key: IdempotencyKey,
    releases_on_drop: bool,
}

impl HeldCredits {
    pub(crate) fn new(account: Account, hold: Hold) -> Self {
        Self { account, hold, release_key: random_key(), releases_on_drop: true }
    }

    /// The hold, as it stood when the service last answered.
    pub fn hold(&self) -> &Hold {
        &self.hold
    }

    /// Takes all or part of the credits.
    ///
    /// After a refusal the guard guards on, and the call may be made again with a new key. After
    /// any other error it does not release by itself: call again with the same key.
    pub async fn capture(
        &mut self,
        body: &CaptureRequest,
        call: &Call,
    ) -> Result<Answer<CaptureAnswer>, ClientError> {
        // Order matters: off before the request leaves, because this future may be dropped while
        // it waits, and the guard with it.
        let released_on_drop = std::mem::replace(&mut self.releases_on_drop, false);
        let answer = self.account.capture(&self.hold.hold_id, body, call).await;
        match &answer {
            Ok(answer) => {
                self.hold = answer.body.hold.clone();
                self.releases_on_drop = released_on_drop && !body.r#final;
            }
            Err(ClientError::Refused(_) | ClientError::Unsendable(_)) => {
                self.releases_on_drop = released_on_drop;
            }
            Err(ClientError::Unknown { .. } | ClientError::Unreachable { .. }) => {}
        }
        answer
    }

    /// Gives the credits back and waits for the answer. If this future is dropped before, the
    /// release goes on in the background.
    pub async fn release(
        mut self,
        body: &ReleaseRequest,
    ) -> Result<Answer<HoldAnswer>, ClientError> {
        let call = Call::with_key(self.release_key.clone());
        let answer = self.account.release(&self.hold.hold_id, body, &call).await;
        self.releases_on_drop = false;
        answer
    }

    /// Ends the guard without a call: the hold lives on until someone ends it or its deadline
    /// comes.
    pub fn keep(mut self) -> Hold {
        self.releases_on_drop = false;
        self.hold.clone()
    }
}

impl Drop for HeldCredits {
    fn drop(&mut self) {
        if !self.releases_on_drop {
            return;
        }
        let hold = self.hold.hold_id.clone();
        let Ok(runtime) = Handle::try_current() else {
            tracing::warn!(%hold, "not released: no runtime here; the hold ends at its deadline");
            return;
        };
        let account = self.account.clone();
        let call = Call::with_key(self.release_key.clone());
        // Nobody waits for it: should the process end first, the hold ends at its deadline.
        runtime.spawn(async move {
            let released = account.release(&hold, &ReleaseRequest::default(), &call).await;
            if let Err(error) = released {
                tracing::warn!(%hold, %error, "not released: the hold ends at its deadline");
            }
        });
    }
}
