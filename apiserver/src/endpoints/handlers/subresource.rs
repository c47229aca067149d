//! Subresources: the handler for what the kind says serves them.

use super::{
    Answer, Request, binding, connect, eviction, finalize, get, kubelet, looked_up, part, patch,
    proxy, scale, token, update,
};
use crate::registry::rest::SubresourceRest;
use crate::request::Verb;
use crate::status::ApiError;
use crate::store::Subresource;

pub(super) async fn handle(request: &Request<'_>, subresource: &str, verb: Verb) -> Answer {
    let rest = request.resource.strategy().subresource_rest(subresource);
    match (rest.ok_or(ApiError::NoSuchPath)?, verb) {
        (SubresourceRest::Status | SubresourceRest::Part(_), Verb::Get) => {
            looked_up(request, get::get).await
        }
        (SubresourceRest::Status, Verb::Update) => {
            update::update_subresource(request, Subresource::Status).await
        }
        (SubresourceRest::Status, Verb::Patch) => {
            patch::patch_subresource(request, Subresource::Status).await
        }
        (SubresourceRest::Scale, Verb::Get) => looked_up(request, scale::get).await,
        (SubresourceRest::Scale, Verb::Update) => scale::update(request).await,
        (SubresourceRest::Scale, Verb::Patch) => scale::patch(request).await,
        (SubresourceRest::Part(part), Verb::Update) => part::update(request, part).await,
        (SubresourceRest::Part(part), Verb::Patch) => part::patch(request, part).await,
        (SubresourceRest::Finalize(validate), Verb::Update) => {
            finalize::finalize(request, validate).await
        }
        (SubresourceRest::Binding, Verb::Create) => binding::bind_pod(request).await,
        (SubresourceRest::Eviction, Verb::Create) => eviction::evict(request).await,
        (SubresourceRest::Token, Verb::Create) => token::create(request).await,
        (SubresourceRest::Stream(connecter), Verb::Get | Verb::Create) => {
            let options = (connecter.options)(&request.query)?;
            let query = connect::admitted(request, options).await?;
            kubelet::stream(request, connecter.stream, &query).await
        }
        (SubresourceRest::Log, Verb::Get) => kubelet::log(request),
        (SubresourceRest::Proxy(target), _) => {
            connect::admitted(request, connect::proxy_options(request)).await?;
            proxy::proxy(request, target).await
        }
        _ => Err(ApiError::NoSuchPath),
    }
}
