//! Questions of synchronous code to authorizers that take time to answer.
//!
//! Code that decides by permissions is synchronous: admission, expressions in CEL, the rules of
//! escalation. A webhook's answer is not. So [`resolved`] runs such code, which records the
//! questions that no webhook has answered yet; then it asks the webhooks, and runs the code again.
//! The code must have no effect but its result. Without a webhook it runs once.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::{Attributes, AuthorizationWebhook, State, User};
use crate::json::Value;
use crate::request::Decision;

tokio::task_local! {
    /// The questions of the code that runs.
    static QUESTIONS: Arc<Mutex<Questions>>;
}

/// Questions by their text, and the answers.
#[derive(Debug, Default)]
struct Questions {
    answers: BTreeMap<String, Decision>,
    /// Each with the webhook that is to answer it.
    open: BTreeMap<String, (AuthorizationWebhook, Value)>,
}

/// Runs `check` until the webhooks have answered all that it asks, and returns its last result.
///
/// Cancel safety: dropping the call closes the connections to webhooks.
pub(crate) async fn resolved<T>(state: &State, mut check: impl FnMut() -> T) -> T {
    if !state.authorizers.ask_webhooks() {
        return check();
    }
    // Boxed, or every request of the server were as large as this.
    Box::pin(async move {
        let questions = Arc::new(Mutex::new(Questions::default()));
        loop {
            let result = QUESTIONS.sync_scope(Arc::clone(&questions), &mut check);
            let open = std::mem::take(&mut questions.lock().open);
            if open.is_empty() {
                return result;
            }
            drop(result);
            for (text, (webhook, spec)) in open {
                let answer = webhook.ask(state, &text, spec).await;
                questions.lock().answers.insert(text, answer);
            }
        }
    })
    .await
}

/// Returns the decision of a webhook if it has been asked; otherwise records the question.
pub(super) fn answer(
    webhook: &AuthorizationWebhook,
    user: &User,
    attributes: &Attributes<'_>,
) -> Option<Decision> {
    let spec = webhook.spec(user, attributes);
    let text = spec.to_string();
    let found = QUESTIONS.try_with(|questions| {
        let mut questions = questions.lock();
        let found = questions.answers.get(&text).cloned();
        if found.is_none() {
            questions.open.insert(text, (webhook.clone(), spec));
        }
        found
    });
    found.unwrap_or_else(|_| {
        // Every check runs in `resolved`. A check outside of it must not be allowed.
        tracing::error!("a permission was checked where no webhook can be asked");
        Some(Decision::NoOpinion(String::new()))
    })
}
