//! APIServices.

pub(crate) mod api_service;
