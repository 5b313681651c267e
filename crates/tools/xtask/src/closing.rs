//! The line with which a test runner closes: how many tests ran, and how they ended.
//!
//! cargo-nextest closes once. Plain cargo closes every test program with a line of its own; here
//! they are added up to one line of the same form, because the last program says nothing about the
//! others.

/// Reads a runner's output line by line and keeps what the closing line needs.
#[derive(Debug)]
pub(crate) enum Closing {
    /// Of cargo-nextest: the last summary seen.
    Nextest(Option<String>),
    /// Of plain cargo: the sum over the programs seen.
    Cargo(Option<Totals>),
}

/// The figures of plain cargo's `test result:` lines, added up.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Totals {
    passed: u64,
    failed: u64,
    ignored: u64,
    measured: u64,
    filtered_out: u64,
    seconds: f64,
}

impl Closing {
    /// Looks at one line of output.
    pub(crate) fn look(&mut self, line: &str) {
        match self {
            Self::Nextest(summary) => {
                if line.trim_start().starts_with("Summary [") {
                    *summary = Some(line.trim().to_owned());
                }
            }
            Self::Cargo(totals) => {
                if let Some(more) = Totals::parse(line) {
                    totals.get_or_insert_default().add(&more);
                }
            }
        }
    }

    /// The closing line; `None` if no test ran, for example because the tests do not compile.
    pub(crate) fn line(self) -> Option<String> {
        match self {
            Self::Nextest(summary) => summary,
            Self::Cargo(totals) => totals.map(|totals| totals.line()),
        }
    }
}

impl Totals {
    fn parse(line: &str) -> Option<Self> {
        let (_, figures) = line.strip_prefix("test result: ")?.split_once(". ")?;
        let mut totals = Self::default();
        for figure in figures.split("; ") {
            if let Some(seconds) = figure.strip_prefix("finished in ") {
                totals.seconds = seconds.trim_end().strip_suffix('s')?.parse().ok()?;
                continue;
            }
            let (count, what) = figure.split_once(' ')?;
            let count = count.parse().ok()?;
            match what.trim_end() {
                "passed" => totals.passed = count,
                "failed" => totals.failed = count,
                "ignored" => totals.ignored = count,
                "measured" => totals.measured = count,
                "filtered out" => totals.filtered_out = count,
                _ => return None,
            }
        }
        Some(totals)
    }

    fn add(&mut self, more: &Self) {
        self.passed += more.passed;
        self.failed += more.failed;
        self.ignored += more.ignored;
        self.measured += more.measured;
        self.filtered_out += more.filtered_out;
        self.seconds += more.seconds;
    }

    fn line(&self) -> String {
        let Self { passed, failed, ignored, measured, filtered_out, seconds } = self;
        let verdict = if *failed == 0 { "ok" } else { "FAILED" };
        format!(
            "test result: {verdict}. {passed} passed; {failed} failed; {ignored} ignored; \
             {measured} measured; {filtered_out} filtered out; finished in {seconds:.2}s"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_line(mut closing: Closing, output: &str, expected: Option<&str>) {
        output.lines().for_each(|line| closing.look(line));
        assert_eq!(closing.line().as_deref(), expected);
    }

    #[test]
    fn nextest_closes_with_its_summary() {
        let output = "        PASS [   0.005s] purser-types credits::tests::sums\n\
                      ------------\n     \
                      Summary [   0.016s] 9 tests run: 8 passed, 1 failed, 0 skipped\n        \
                      FAIL [   0.010s] purser-types ids::tests::names\n\
                      error: test run failed\n";
        let summary = "Summary [   0.016s] 9 tests run: 8 passed, 1 failed, 0 skipped";
        check_line(Closing::Nextest(None), output, Some(summary));
    }

    #[test]
    fn plain_cargo_closes_with_the_sum_of_its_programs() {
        let output = "test a ... ok\n\
             test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; \
             finished in 0.25s\n\n\
             test result: FAILED. 4 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; \
             finished in 1.50s\n";
        let sum = "test result: FAILED. 7 passed; 1 failed; 1 ignored; 0 measured; \
                   2 filtered out; finished in 1.75s";
        check_line(Closing::Cargo(None), output, Some(sum));
    }

    #[test]
    fn without_a_test_there_is_no_closing_line() {
        let output = "error[E0425]: cannot find value `credits` in this scope\n";
        check_line(Closing::Cargo(None), output, None);
        check_line(Closing::Nextest(None), output, None);
    }
}
