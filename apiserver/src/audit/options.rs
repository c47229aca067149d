//! The settings of auditing as the flags of kube-apiserver state them.

use std::path::Path;

use super::Audit;
use super::log::{Format, Log, LogOptions, Mode, Truncation};
use super::policy::Policy;
use crate::meta::GroupVersion;
use crate::status::quoted;

/// The path that means standard output.
const STANDARD_OUTPUT: &str = "-";

/// The modes of a log, in upstream's order.
const MODES: &str = "batch,blocking,blocking-strict";

/// The reason why auditing cannot begin, in upstream's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct OptionsError(String);

/// Values of the flags `--audit-*`, which [`Options::build`] checks. The defaults are those of kube-apiserver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// `--audit-policy-file`; without a file nothing is audited.
    pub policy_file: String,
    /// `--audit-log-path`; `-` is standard output.
    pub log_path: String,
    /// `--audit-log-format`.
    pub log_format: String,
    /// `--audit-log-mode`.
    pub log_mode: String,
    /// `--audit-log-version`.
    pub log_version: String,
    /// `--audit-log-maxage`, in days.
    pub log_maxage: i64,
    /// `--audit-log-maxbackup`.
    pub log_maxbackup: i64,
    /// `--audit-log-maxsize`, in megabytes.
    pub log_maxsize: i64,
    /// `--audit-log-compress`.
    pub log_compress: bool,
    /// `--audit-log-truncate-enabled`.
    pub log_truncate_enabled: bool,
    /// `--audit-log-truncate-max-event-size`, in bytes.
    pub log_truncate_max_event_size: i64,
    /// `--audit-log-truncate-max-batch-size`, in bytes. It is only checked: a log has no batches.
    pub log_truncate_max_batch_size: i64,
    /// `--audit-log-batch-buffer-size`, in events.
    pub log_batch_buffer_size: i64,
    /// `--audit-log-batch-max-size`, in events. It is only checked: each event is written by itself.
    pub log_batch_max_size: i64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            policy_file: String::new(),
            log_path: String::new(),
            log_format: "json".to_owned(),
            log_mode: "blocking".to_owned(),
            log_version: "audit.k8s.io/v1".to_owned(),
            log_maxage: 366,
            log_maxbackup: 100,
            log_maxsize: 100,
            log_compress: false,
            log_truncate_enabled: false,
            log_truncate_max_event_size: 100 * 1024,
            log_truncate_max_batch_size: 10 * 1024 * 1024,
            log_batch_buffer_size: 10_000,
            log_batch_max_size: 1,
        }
    }
}

impl Options {
    /// Reads the policy and opens the log; `None` unless there are both.
    ///
    /// # Errors
    /// The invalid values, or the fault of the policy, or that of the log's file.
    pub fn build(&self) -> Result<Option<Audit>, OptionsError> {
        let faults = self.faults();
        match faults.as_slice() {
            [] => {}
            [fault] => return Err(OptionsError(fault.clone())),
            faults => return Err(OptionsError(format!("[{}]", faults.join(", ")))),
        }
        let policy = match self.policy_file.as_str() {
            "" => None,
            path => Some(
                Policy::read_file(Path::new(path))
                    .map_err(|error| OptionsError(format!("loading audit policy file: {error}")))?,
            ),
        };
        let log = match self.log_path.as_str() {
            "" => None,
            _ => Some(self.log()?),
        };
        Ok(policy
            .zip(log)
            .map(|(policy, log)| Audit::new(policy).sink(log)))
    }

    /// Opens the log, whose options are valid.
    fn log(&self) -> Result<Log, OptionsError> {
        let count = |number: i64| usize::try_from(number).unwrap_or_default();
        let options = LogOptions {
            format: match self.log_format.as_str() {
                "legacy" => Format::Legacy,
                _ => Format::Json,
            },
            mode: match self.log_mode.as_str() {
                "batch" => Mode::Batch(count(self.log_batch_buffer_size)),
                "blocking-strict" => Mode::BlockingStrict,
                _ => Mode::Blocking,
            },
            truncation: self.log_truncate_enabled.then(|| Truncation {
                event_bytes_max: count(self.log_truncate_max_event_size),
            }),
            megabytes_max: u64::try_from(self.log_maxsize).unwrap_or_default(),
            days_max: u32::try_from(self.log_maxage).unwrap_or(u32::MAX),
            backups_max: count(self.log_maxbackup),
            compress: self.log_compress,
        };
        let opened = match self.log_path.as_str() {
            STANDARD_OUTPUT => Log::to_standard_output(&options),
            path => Log::to_file(path, &options),
        };
        let path = &self.log_path;
        opened.map_err(|error| OptionsError(format!("ensureLogFile: open {path}: {error}")))
    }

    /// The invalid values of the log, in upstream's words, if there is to be one.
    #[must_use]
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.log_path.is_empty() {
            return faults;
        }
        let mode = self.log_mode.as_str();
        let buffer = self.log_batch_buffer_size;
        let batch = self.log_batch_max_size;
        if !MODES.split(',').any(|own| own == mode) {
            faults.push(format!(
                "invalid audit log mode {mode}, allowed modes are {MODES:?}"
            ));
        } else if mode == "batch" && buffer <= 0 {
            faults.push(format!(
                "invalid audit batch log buffer size {buffer}, must be a positive number"
            ));
        } else if mode == "batch" && batch <= 0 {
            faults.push(format!(
                "invalid audit batch log max batch size {batch}, must be a positive number"
            ));
        }
        let (event, batch) = (
            self.log_truncate_max_event_size,
            self.log_truncate_max_batch_size,
        );
        if event <= 0 {
            faults.push(format!(
                "invalid audit truncate log max event size {event}, must be a positive number"
            ));
        } else if batch < event {
            faults.push(format!(
                "invalid audit truncate log max batch size {batch}, must be greater than max event size ({event})"
            ));
        }
        match GroupVersion::parse(&self.log_version) {
            None => faults.push(format!(
                "unexpected GroupVersion string: {}",
                self.log_version
            )),
            Some(version) if version.to_string() != "audit.k8s.io/v1" => faults.push(
                "invalid group version, allowed versions are [\"audit.k8s.io/v1\"]".to_owned(),
            ),
            Some(_) => {}
        }
        let formats = Format::ALL.map(Format::as_str);
        if !formats.contains(&self.log_format.as_str()) {
            let (format, formats) = (&self.log_format, quoted(&formats.join(",")));
            faults.push(format!(
                "invalid audit log format {format}, allowed formats are {formats}"
            ));
        }
        for (flag, value) in [
            ("maxage", self.log_maxage),
            ("maxbackup", self.log_maxbackup),
            ("maxsize", self.log_maxsize),
        ] {
            if value < 0 {
                faults.push(format!(
                    "--audit-log-{flag} {value} can't be a negative number"
                ));
            }
        }
        faults
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> Options {
        Options {
            log_path: STANDARD_OUTPUT.to_owned(),
            ..Options::default()
        }
    }

    #[test]
    fn nothing_is_audited_without_a_policy_or_without_a_log() {
        assert!(Options::default().build().unwrap().is_none());
        assert!(options().build().unwrap().is_none());
        let options = Options {
            policy_file: "/nowhere/policy.yaml".to_owned(),
            ..Options::default()
        };
        let error = options.build().unwrap_err().to_string();
        let start = "loading audit policy file: failed to read file path \"/nowhere/policy.yaml\"";
        assert!(error.starts_with(start), "{error}");
    }

    #[test]
    fn invalid_values_are_refused_in_upstreams_words() {
        let rows = [
            (
                Options {
                    log_mode: "fast".to_owned(),
                    ..options()
                },
                "invalid audit log mode fast, allowed modes are \"batch,blocking,blocking-strict\"",
            ),
            (
                Options {
                    log_mode: "batch".to_owned(),
                    log_batch_buffer_size: 0,
                    ..options()
                },
                "invalid audit batch log buffer size 0, must be a positive number",
            ),
            (
                Options {
                    log_truncate_max_event_size: 20,
                    log_truncate_max_batch_size: 10,
                    ..options()
                },
                "invalid audit truncate log max batch size 10, must be greater than max event size (20)",
            ),
            (
                Options {
                    log_version: "audit.k8s.io/v1beta1".to_owned(),
                    ..options()
                },
                "invalid group version, allowed versions are [\"audit.k8s.io/v1\"]",
            ),
            (
                Options {
                    log_format: "xml".to_owned(),
                    log_maxage: -1,
                    ..options()
                },
                "[invalid audit log format xml, allowed formats are \"legacy,json\", --audit-log-maxage -1 can't be a negative number]",
            ),
        ];
        for (options, want) in rows {
            assert_eq!(options.build().unwrap_err().to_string(), want);
            let without = Options {
                log_path: String::new(),
                ..options
            };
            assert!(without.build().unwrap().is_none(), "{want}");
        }
    }
}
