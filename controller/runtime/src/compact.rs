//! Gives back the memory that lists have to spare.
//!
//! A list is decoded into a vector with room for four items at least, and a container is two kilobytes. Pods are the most
//! numerous objects.

use k8s_openapi::api::core::v1::{Container, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Makes the lists of an object's metadata as long as they have to be.
pub(crate) fn meta(meta: &mut ObjectMeta) {
    fit(&mut meta.owner_references);
    fit(&mut meta.finalizers);
}

/// Makes the lists of a pod's spec as long as they have to be.
pub(crate) fn spec(spec: &mut PodSpec) {
    spec.containers.shrink_to_fit();
    fit(&mut spec.init_containers);
    fit(&mut spec.ephemeral_containers);
    fit(&mut spec.tolerations);
    fit(&mut spec.volumes);
    let init = spec.init_containers.iter_mut().flatten();
    spec.containers.iter_mut().chain(init).for_each(container);
}

fn container(container: &mut Container) {
    fit(&mut container.args);
    fit(&mut container.command);
    fit(&mut container.env);
    fit(&mut container.ports);
    fit(&mut container.volume_mounts);
}

/// Makes a list as long as it has to be.
pub(crate) fn fit<T>(list: &mut Option<Vec<T>>) {
    if let Some(list) = list {
        list.shrink_to_fit();
    }
}
