//! The operator. Nothing in it knows of kubeproof.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::core::NamespaceResourceScope;
use kube::runtime::controller::{Action, Controller};
use kube::runtime::finalizer::{self, finalizer};
use kube::runtime::watcher;
use kube::{Api, Client, CustomResource, Resource, ResourceExt};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Manages the fields that the operator applies.
const NAME: &str = "database-operator";
/// Held until the database is taken out of the list of backups.
const FINALIZER: &str = "example.com/backups";
/// The ConfigMap with the databases of which there are backups.
const BACKUPS: &str = "backups";
/// The label of the Secrets of a database.
const LABEL: &str = "example.com/database";
/// The time until a failed reconciliation is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// A database with some members.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "example.com",
    version = "v1",
    kind = "Database",
    namespaced,
    status = "DatabaseStatus",
    printcolumn = r#"{"name": "Members", "type": "integer", "jsonPath": ".status.members"}"#
)]
pub(crate) struct DatabaseSpec {
    #[schemars(range(min = 0, max = 9))]
    members: i32,
}

/// The status that the operator reports.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DatabaseStatus {
    observed_generation: i64,
    members: i32,
}

/// The Secrets that are deleted when a database has too many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Surplus {
    /// The Secrets of the members that this reconciliation removes. This is the planted bug: after a crash between the two
    /// writes, no reconciliation removes these members any more, and their Secrets stay forever.
    OfThisChange,
    /// All Secrets that belong to no member. The Secrets themselves say which.
    OfAnyChange,
}

/// Why a `Database` could not be brought about.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The API server refused a request, or did not answer.
    #[error(transparent)]
    Api(#[from] kube::Error),
    /// The finalizer could not be set or removed.
    #[error(transparent)]
    Finalizer(#[from] Box<finalizer::Error<kube::Error>>),
}

struct Context {
    client: Client,
    surplus: Surplus,
}

/// Runs the operator until the process ends.
pub(crate) async fn run(client: Client, surplus: Surplus) {
    let databases = Api::<Database>::all(client.clone());
    let owned = watcher::Config::default();
    Controller::new(databases, watcher::Config::default())
        .owns(Api::<StatefulSet>::all(client.clone()), owned.clone())
        .owns(Api::<Secret>::all(client.clone()), owned)
        .run(
            reconcile,
            |_, _, _| Action::requeue(RETRY),
            Arc::new(Context { client, surplus }),
        )
        .for_each(|_| async {})
        .await;
}

async fn reconcile(database: Arc<Database>, context: Arc<Context>) -> Result<Action, Failure> {
    let databases = context.api::<Database>(&database);
    let done = finalizer(&databases, FINALIZER, database, |event| async {
        match event {
            finalizer::Event::Apply(database) => context.bring_about(&database).await,
            finalizer::Event::Cleanup(database) => context.list_backup(&database, json!({})).await,
        }
    });
    Ok(done.await.map_err(Box::new)?)
}

impl Context {
    async fn bring_about(&self, database: &Database) -> Result<Action, kube::Error> {
        let (name, members) = (database.name_any(), database.spec.members);
        let listed = json!({"data": {&name: "daily"}});
        self.list_backup(database, listed).await?;
        for member in 0..members {
            let secret = json!({"metadata": {"labels": {LABEL: name}}});
            self.apply::<Secret>(database, &format!("{name}-{member}"), secret)
                .await?;
        }
        let sets = self.api::<StatefulSet>(database);
        let before = sets.get_opt(&name).await?;
        let before = before.and_then(|set| set.spec?.replicas).unwrap_or(0);
        if before != members {
            let labels = json!({"database": name});
            let container = json!({"name": "database", "image": "postgres:18"});
            let template =
                json!({"metadata": {"labels": labels}, "spec": {"containers": [container]}});
            let spec = json!({
                "replicas": members,
                "serviceName": name,
                "selector": {"matchLabels": labels},
                "template": template,
            });
            self.apply::<StatefulSet>(database, &name, json!({"spec": spec}))
                .await?;
        }
        let surplus = match self.surplus {
            Surplus::OfThisChange => (members..before)
                .map(|member| format!("{name}-{member}"))
                .collect(),
            Surplus::OfAnyChange => self.secrets_of_nobody(database).await?,
        };
        for secret in surplus {
            let secrets = self.api::<Secret>(database);
            match secrets.delete(&secret, &DeleteParams::default()).await {
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                deleted => drop(deleted?),
            }
        }
        let status = DatabaseStatus {
            observed_generation: database.metadata.generation.unwrap_or_default(),
            members,
        };
        if database.status.as_ref() != Some(&status) {
            let patch = Patch::Merge(json!({"status": status}));
            let databases = self.api::<Database>(database);
            databases
                .patch_status(&name, &PatchParams::default(), &patch)
                .await?;
        }
        Ok(Action::await_change())
    }

    /// The names of the Secrets of members that the database does not have.
    async fn secrets_of_nobody(&self, database: &Database) -> Result<Vec<String>, kube::Error> {
        let name = database.name_any();
        let labeled = ListParams::default().labels(&format!("{LABEL}={name}"));
        let secrets = self.api::<Secret>(database).list(&labeled).await?;
        let names = secrets.iter().map(ResourceExt::name_any);
        let is_surplus = |secret: &String| {
            let member = secret
                .rsplit_once('-')
                .and_then(|(_, member)| member.parse::<i32>().ok());
            member.is_some_and(|member| member >= database.spec.members)
        };
        Ok(names.filter(is_surplus).collect())
    }

    /// Applies `fields` of the list of backups for `database`, and gives back those that it applied before.
    async fn list_backup(
        &self,
        database: &Database,
        mut fields: Value,
    ) -> Result<Action, kube::Error> {
        fields["apiVersion"] = json!("v1");
        fields["kind"] = json!("ConfigMap");
        fields["metadata"] = json!({"name": BACKUPS});
        let manager = PatchParams::apply(&format!("{NAME}/{}", database.name_any()));
        let lists = self.api::<ConfigMap>(database);
        lists
            .patch(BACKUPS, &manager, &Patch::Apply(fields))
            .await?;
        Ok(Action::await_change())
    }

    /// Applies an object that goes with `database`.
    async fn apply<K>(
        &self,
        database: &Database,
        name: &str,
        mut object: Value,
    ) -> Result<(), kube::Error>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
        K: Clone + std::fmt::Debug + DeserializeOwned,
    {
        object["apiVersion"] = json!(K::api_version(&()));
        object["kind"] = json!(K::kind(&()));
        object["metadata"]["name"] = json!(name);
        object["metadata"]["ownerReferences"] = json!([database.controller_owner_ref(&())]);
        let manager = PatchParams::apply(NAME).force();
        let api = self.api::<K>(database);
        api.patch(name, &manager, &Patch::Apply(object))
            .await
            .map(drop)
    }

    fn api<K>(&self, database: &Database) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(
            self.client.clone(),
            &database.namespace().unwrap_or_default(),
        )
    }
}
