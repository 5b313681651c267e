//! The operations of the API, by name.

/// Names the operations: in metrics, in logs and in the API's description.
macro_rules! operations {
    ($($(#[$doc:meta])+ $variant:ident $name:literal,)+) => {
        /// What a call does.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub(crate) enum Operation {
            $($(#[$doc])+ $variant,)+
        }

        impl Operation {
            /// The operation's name.
            pub(crate) const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }
        }
    };
}

operations! {
    /// Sets credits aside.
    Authorize "authorize",
    /// Shows a hold.
    GetHold "hold",
    /// Lists holds.
    ListHolds "holds",
    /// Takes all or part of a hold.
    Capture "capture",
    /// Gives a hold back.
    Release "release",
    /// Moves a hold's deadline.
    Extend "extend",
    /// Gives captured credits of a hold back.
    RefundHold "refund_hold",
    /// Takes refunded credits of a hold again.
    ReclaimHold "reclaim_hold",
    /// Authorizes and captures in one step.
    Charge "charge",
    /// Shows a charge.
    GetCharge "charge_detail",
    /// Gives charged credits back.
    RefundCharge "refund_charge",
    /// Takes refunded credits of a charge again.
    ReclaimCharge "reclaim_charge",
    /// Asks what an authorize would answer.
    Check "check",
    /// Creates a job.
    CreateJob "create_job",
    /// Shows a job.
    GetJob "job",
    /// Lists jobs.
    ListJobs "jobs",
    /// Reports how an attempt of a job ended.
    ReportOutcome "job_outcome",
    /// Keeps a job for longer.
    RenewJob "renew_job",
    /// Takes jobs that are due.
    LeaseJobs "lease_jobs",
    /// Takes usage events in.
    TakeEvents "events",
    /// Lists usage events that wait for people.
    ListParkedEvents "parked_events",
    /// Shows one of them.
    GetParkedEvent "parked_event",
    /// Takes one after all.
    RedriveParkedEvent "redrive_event",
    /// Lets nothing become of one.
    DiscardParkedEvent "discard_event",
    /// Does several operations.
    Batch "batch",
    /// Shows a balance.
    GetBalance "balance",
    /// Lists entries.
    ListEntries "entries",
    /// Tells what has been decided since.
    ListChanges "changes",
    /// Lists lots.
    ListLots "lots",
    /// Shows what happened between two instants.
    GetStatement "statement",
    /// Opens an account.
    OpenTenant "open_tenant",
    /// Shows an account.
    GetTenant "tenant",
    /// Lists accounts.
    ListTenants "tenants",
    /// Stops new work.
    Freeze "freeze",
    /// Allows new work again.
    Unfreeze "unfreeze",
    /// Closes an account.
    Close "close",
    /// Gives credits.
    Grant "grant",
    /// Takes a lot back.
    VoidLot "void",
    /// Adds or removes credits by an operator's decision.
    Adjust "adjust",
    /// Moves a tenant's home.
    Move "move",
    /// Shows where a tenant's home is.
    GetMove "placement",
    /// Has a standby take over a lost region's homes.
    FailOver "failover",
    /// Shows what lost homes had decided besides.
    GetTails "tails",
    /// Gives a lost home's tail up.
    WriteOffTail "write_off_tail",
    /// Shows a policy.
    GetPolicy "policy",
    /// Changes a policy.
    SetPolicy "set_policy",
    /// Lists budgets.
    ListBudgets "budgets",
    /// Shows a budget.
    GetBudget "budget",
    /// Makes or changes a budget.
    SetBudget "set_budget",
    /// Removes a budget.
    RemoveBudget "remove_budget",
    /// Lists what is set aside for regions.
    ListAllocations "allocations",
    /// Changes what a region may do with its allocation.
    SetAllocation "set_allocation",
    /// Asks credits back from a region.
    RecallAllocation "recall",
    /// Asks credits back from one region for another.
    Transfer "transfer",
    /// Takes credits back without hearing from their region.
    TakeBack "take_back",
    /// Ends an allocation of which nothing more will be heard.
    WriteOff "write_off",
    /// Lists jobs that only people may touch.
    ListDeadLetters "dead_letters",
    /// Shows one of them.
    GetDeadLetter "dead_letter",
    /// Lets one be tried again.
    RedriveDeadLetter "redrive",
    /// Lets nothing become of one.
    DiscardDeadLetter "discard",
    /// Shows what can have been overspent.
    GetOverspend "overspend",
    /// Shows the regions.
    ListRegions "regions",
    /// Moves all homes out of a region.
    DrainRegion "drain",
    /// Shows how far that has come.
    GetDrain "drain_progress",
    /// Stops it.
    StopDrain "stop_drain",
    /// Shows the webhooks.
    ListWebhooks "webhooks",
    /// Makes a webhook.
    CreateWebhook "create_webhook",
    /// Shows a webhook.
    GetWebhook "webhook",
    /// Ends a webhook.
    RemoveWebhook "remove_webhook",
    /// Changes what a webhook signs with.
    RotateWebhook "rotate_webhook",
    /// Has a webhook deliver.
    EnableWebhook "enable_webhook",
    /// Has a webhook wait.
    DisableWebhook "disable_webhook",
    /// Lists what a webhook could not deliver.
    ListWebhookDeadLetters "webhook_dead_letters",
    /// Tries a webhook's dead letter once more.
    RedriveWebhook "redrive_webhook_dead_letter",
    /// Tries a webhook's dead letters once more.
    RedriveWebhookAll "redrive_webhook",
    /// Gives a webhook's dead letter up.
    DiscardWebhook "discard_webhook_dead_letter",
    /// Starts a verification.
    StartVerification "verify",
    /// Shows how far one has come.
    GetVerification "verification",
    /// Shows the node's groups.
    GetCluster "cluster",
    /// Adds a node that does not vote to a group.
    AddLearner "add_learner",
    /// Says who votes in a group.
    SetVoters "set_voters",
    /// Says who leads a group.
    SetLeader "set_leader",
}
