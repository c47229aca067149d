//! AdmissionReview: the question.

use super::GROUP_OF_REVIEWS;
use crate::admission::request::{Admission, Invocation};
use crate::json::Value;

impl Admission<'_> {
    /// The review that is posted to a webhook.
    pub(super) fn review(
        &self,
        uid: &str,
        version: &str,
        invocation: &Invocation,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Value {
        let mut review = self.request(uid, invocation);
        review["apiVersion"] = format!("{GROUP_OF_REVIEWS}/{version}").into();
        review["request"]["object"] = self.in_form(object, invocation);
        review["request"]["oldObject"] = self.in_form(old, invocation);
        review
    }
}
