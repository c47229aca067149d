//! Empties a namespace that is being deleted, tells what is left in it, then lets it go.

mod conditions;

use std::collections::BTreeSet;

use futures::stream::FuturesUnordered;
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{
    DeleteParams, DynamicObject, ListParams, ObjectList, Patch, PatchParams, PostParams,
    WatchEvent, WatchParams,
};
use kube::core::PartialObjectMeta;
use kube::{Api, Client};
use serde_json::json;

use crate::context::Context;
use crate::inventory::{self, Kind};
use crate::mirror::{self, Mirror, answered};
use conditions::Remains;

const FINALIZER: &str = "kubernetes";

/// Finishes the deletion of namespaces for as long as it is polled.
pub async fn run(ctx: Context) {
    let ctx = ctx.for_component("namespace-controller");
    let mut events = mirror::watch::<Namespace>(Api::all(ctx.client.clone()));
    let mut mirror = Mirror::default();
    // Uids of the namespaces at work; a namespace ends only once.
    let mut ending: BTreeSet<String> = BTreeSet::new();
    let mut work = FuturesUnordered::new();
    loop {
        tokio::select! {
            biased;
            Some(event) = events.next() => {
                for change in mirror.handle(*event) {
                    let Some(namespace) = change.new else { continue };
                    let uid = mirror::uid(&*namespace);
                    if is_ending(&namespace) && ending.insert(uid.clone()) {
                        work.push(finish(ctx.clone(), change.key.name, uid));
                    }
                }
            }
            Some(uid) = work.next() => {
                ending.remove(&uid);
            }
        }
    }
}

fn is_ending(namespace: &Namespace) -> bool {
    let spec = namespace.spec.as_ref();
    let mut finalizers = spec.iter().flat_map(|spec| &spec.finalizers).flatten();
    namespace.metadata.deletion_timestamp.is_some()
        && finalizers.any(|finalizer| finalizer == FINALIZER)
}

/// Works on one namespace until it is released; its uid.
async fn finish(ctx: Context, name: String, uid: String) -> String {
    let mut failures = 0;
    loop {
        match release(&ctx, &name, &uid).await {
            Ok(()) => return uid,
            Err(error) => {
                tracing::warn!(namespace = name, %error, "namespace not emptied");
                failures += 1;
                tokio::time::sleep(mirror::retry_after(failures)).await;
            }
        }
    }
}

async fn release(ctx: &Context, name: &str, uid: &str) -> Result<(), kube::Error> {
    let client = &ctx.client;
    let kinds = inventory::discover(client).await?;
    let kinds = kinds.into_iter().filter(|kind| kind.namespaced);
    // Pods go first: what they use should outlive them.
    let (pods, others): (Vec<Kind>, Vec<Kind>) = kinds.partition(|kind| kind.is("", "Pod"));
    for kinds in [pods, others] {
        for kind in &kinds {
            delete_all(client, name, kind).await?;
        }
        let mut told = false;
        for (index, kind) in kinds.iter().enumerate() {
            let mut left = list(client, name, kind).await?;
            while !left.items.is_empty() {
                if !std::mem::replace(&mut told, true) {
                    let remains = remains(client, name, &kinds[index..]).await?;
                    tell(ctx, name, uid, &remains).await?;
                }
                left = wait(client, name, kind, left).await?;
            }
            // The next kind that keeps the namespace waiting is told of anew.
            told = false;
        }
    }
    tell(ctx, name, uid, &Remains::default()).await?;
    let api: Api<Namespace> = Api::all(client.clone());
    let Some(mut namespace) = api.get_opt(name).await? else {
        return Ok(());
    };
    if namespace.metadata.uid.as_deref() != Some(uid) {
        return Ok(());
    }
    if let Some(spec) = &mut namespace.spec {
        let finalizers = spec.finalizers.get_or_insert_default();
        finalizers.retain(|finalizer| finalizer != FINALIZER);
    }
    let params = PostParams::default();
    match api
        .replace_subresource("finalize", name, &params, &namespace)
        .await
    {
        Err(error) if answered(&error, 404) => Ok(()),
        released => released.map(|_| ()),
    }
}

async fn delete_all(client: &Client, namespace: &str, kind: &Kind) -> Result<(), kube::Error> {
    let api = kind.api(client, namespace);
    let params = DeleteParams::background();
    if kind.supports("deletecollection") {
        return api
            .delete_collection(&params, &ListParams::default())
            .await
            .map(|_| ());
    }
    for object in api.list(&ListParams::default()).await? {
        let name = object.metadata.name.unwrap_or_default();
        match api.delete(&name, &params).await {
            Err(error) if answered(&error, 404) => {}
            deleted => {
                deleted?;
            }
        }
    }
    Ok(())
}

async fn list(
    client: &Client,
    namespace: &str,
    kind: &Kind,
) -> Result<ObjectList<PartialObjectMeta<DynamicObject>>, kube::Error> {
    let api = kind.api(client, namespace);
    api.list_metadata(&ListParams::default()).await
}

/// What is left of `kinds`.
async fn remains(client: &Client, namespace: &str, kinds: &[Kind]) -> Result<Remains, kube::Error> {
    let mut remains = Remains::default();
    for kind in kinds {
        for object in list(client, namespace, kind).await? {
            remains.add(kind, &object.metadata);
        }
    }
    Ok(remains)
}

/// Brings the conditions of the namespace up to date.
async fn tell(ctx: &Context, name: &str, uid: &str, remains: &Remains) -> Result<(), kube::Error> {
    let api: Api<Namespace> = Api::all(ctx.client.clone());
    let Some(namespace) = api.get_opt(name).await? else {
        return Ok(());
    };
    let Some(conditions) = remains.conditions(&namespace, (ctx.now)()) else {
        return Ok(());
    };
    let patch = json!({ "metadata": { "uid": uid }, "status": { "conditions": conditions } });
    let params = PatchParams::default();
    match api
        .patch_status(name, &params, &Patch::Strategic(patch))
        .await
    {
        Err(error) if !answered(&error, 404) && !answered(&error, 409) => Err(error),
        _ => Ok(()),
    }
}

/// Waits until one of those `left` is gone, deleting those that came late; those that are left then.
async fn wait(
    client: &Client,
    namespace: &str,
    kind: &Kind,
    left: ObjectList<PartialObjectMeta<DynamicObject>>,
) -> Result<ObjectList<PartialObjectMeta<DynamicObject>>, kube::Error> {
    let late = left
        .items
        .iter()
        .any(|object| object.metadata.deletion_timestamp.is_none());
    if late {
        delete_all(client, namespace, kind).await?;
    }
    let version = left.metadata.resource_version.unwrap_or_default();
    until_one_goes(&kind.api(client, namespace), &version).await?;
    list(client, namespace, kind).await
}

/// Returns after the next removal, or when the watch ends.
async fn until_one_goes(api: &Api<DynamicObject>, version: &str) -> Result<(), kube::Error> {
    let events = api.watch(&WatchParams::default(), version).await?;
    let mut events = events.boxed();
    while let Some(event) = events.try_next().await? {
        match event {
            WatchEvent::Deleted(_) => return Ok(()),
            WatchEvent::Error(status) => return Err(kube::Error::Api(status)),
            WatchEvent::Added(_) | WatchEvent::Modified(_) | WatchEvent::Bookmark(_) => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_a_deleted_namespace_with_our_finalizer_is_ending() {
        for (deleted, finalizers, expected) in [
            (true, json!(["kubernetes"]), true),
            (false, json!(["kubernetes"]), false),
            (true, json!(["example.io/other"]), false),
            (true, json!([]), false),
        ] {
            let mut namespace = json!({ "metadata": {}, "spec": { "finalizers": finalizers } });
            if deleted {
                namespace["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            }
            let parsed: Namespace = serde_json::from_value(namespace.clone()).unwrap();
            assert_eq!(is_ending(&parsed), expected, "{namespace}");
        }
    }
}
