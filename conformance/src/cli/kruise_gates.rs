//! The option by which OpenKruise's feature gates are set.

use clap::Args;
use kubeproof_controller::kruise::Gates;

use super::out;

#[derive(Args)]
pub(super) struct KruiseGates {
    /// Feature gates of OpenKruise, as its manager's --feature-gates has them; `AllAlpha` and
    /// `AllBeta` set all of a stage that are not named.
    #[arg(long = "kruise-gates", value_name = "NAME=true|false,...", value_parser = checked)]
    text: Option<String>,
}

impl KruiseGates {
    /// The gates; says which of those named have nothing to decide here.
    pub(super) fn read(&self) -> Gates {
        let text = self.text.as_deref().unwrap_or_default();
        for name in Gates::without_effect(text) {
            out::note(&format!(
                "feature gate {name} has no effect: its feature is not implemented"
            ));
        }
        text.parse().expect("the text has been checked")
    }
}

fn checked(text: &str) -> Result<String, String> {
    let read = text.parse::<Gates>();
    read.map(|_| text.to_owned())
        .map_err(|error| error.to_string())
}
