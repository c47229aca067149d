use super::super::server::Canned;
use super::super::tree::Files;
use super::*;

const REGISTER: &str = "package v1\n// GroupName is it\nconst GroupName = \"sea.example\"\n";
const TYPES: &str = r#"
package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Boat floats.
type Boat struct {
	metav1.TypeMeta `json:",inline"`
	// +listType=map
	// +listMapKey=side
	Oars []Oar `json:"oars,omitempty" protobuf:"bytes,2,rep,name=oars" patchStrategy:"merge" patchMergeKey:"side"`
	// +structType=granular
	Hull *Hull `json:"hull" protobuf:"bytes,3,opt,name=hull"`
	Load Cargo `json:"load,omitempty" protobuf:"bytes,4,rep,name=load"`
	Rest map[Name]int32 `json:"rest"`
	Data []byte `json:"data"`
	hidden int
	Hidden int `json:"-"`
}

type Oar struct {
	Wood `json:",inline" protobuf:"bytes,1,opt,name=wood"`
	Side Name `json:"side" protobuf:"bytes,2,opt,name=side"`
}
type Wood struct {
	Grain `json:",inline" protobuf:"bytes,7,opt,name=grain"`
}
type Grain struct {
	Fine bool `json:"fine,omitzero" protobuf:"varint,3,opt,name=fine"`
}
type Name string
type Cargo map[Name]resource.Quantity
// +structType=atomic
type Hull struct {
	Laid metav1.Time `json:"laid"`
}
type Unused struct {}
"#;
const META_TYPES: &str = r#"
package v1
type TypeMeta struct {
	Kind string `json:"kind,omitempty" protobuf:"bytes,1,opt,name=kind"`
}
type DeleteOptions struct {}
type PartialObjectMetadata struct {}
type Status struct {}
type APIGroup struct {}
type APIGroupList struct {}
type APIResourceList struct {}
type APIVersions struct {}
type PartialObjectMetadataList struct {}
"#;

fn generated(types: &str) -> anyhow::Result<String> {
    let sea = "staging/src/k8s.io/api/sea/v1";
    let meta = "staging/src/k8s.io/apimachinery/pkg/apis/meta";
    let files = Files::with(&[
        (&format!("{sea}/register.go"), REGISTER),
        (&format!("{sea}/types.go"), types),
        (&format!("{meta}/v1/types.go"), META_TYPES),
        (
            &format!("{meta}/v1beta1/types.go"),
            "package v1beta1\ntype PartialObjectMetadataList struct {}",
        ),
        (
            "staging/src/k8s.io/api/apidiscovery/v2/types.go",
            "package v2\ntype APIGroupDiscoveryList struct {}",
        ),
        (
            "staging/src/k8s.io/api/policy/v1beta1/types.go",
            "package v1beta1\ntype Eviction struct {}",
        ),
    ]);
    let server = Canned::default()
        .with("/apis", r#"{"groups":[{"versions":[{"groupVersion":"sea.example/v1"}]}]}"#)
        .with("/api/v1", r#"{"resources":[]}"#)
        .with(
            "/apis/sea.example/v1",
            r#"{"resources":[{"name":"boats","kind":"Boat"},{"name":"boats/proxy","kind":"BoatProxyOptions"}]}"#,
        );
    generate(&Inputs::of(&server, &files))
}

#[test]
fn a_kind_brings_the_types_that_its_fields_lead_to() {
    let text = generated(TYPES).unwrap();
    let (_, own) = text.split_once("%sea/v1").unwrap();
    let expected = " sea.example
@Boat kind
kind e string
oars e2 []Oar patch=merge key=side list=map keys=side
hull p3 Hull granular
load e4 <v1.Cargo>{}quantity
rest - <map[v1.Name]int32>{}int32
data - bytes
@Hull atomic
laid - time
@Oar
fine z1.7.3 bool
side 2 <v1.Name>string
";
    assert_eq!(own, expected);
    assert!(
        text.contains("@APIGroup answer\n@APIGroupList answer"),
        "{text}"
    );
}

#[test]
fn a_type_that_is_not_there_is_an_error() {
    let error = generated(&TYPES.replace("type Oar ", "type Sail ")).unwrap_err();
    assert!(
        format!("{error:#}").contains("k8s.io/api/sea/v1 has no type Oar"),
        "{error:#}"
    );
}
