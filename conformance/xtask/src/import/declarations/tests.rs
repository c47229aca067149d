use super::super::server::Canned;
use super::super::tree::Files;
use super::*;

const BASE: &str = r#"
package environment
var baseOpts = []VersionedOptions{
	{
		EnvOptions: []cel.EnvOption{cel.DefaultUTCTimeZone(true), UnversionedLib(library.Lists)},
	},
	{
		RemovedVersion: version.MajorMinor(1, 29),
		EnvOptions: []cel.EnvOption{ext.Strings(ext.StringsVersion(0))},
	},
	{
		EnvOptions: []cel.EnvOption{ext.Strings(ext.StringsVersion(2)), UnversionedLib(library.Format)},
	},
}
"#;
const STANDARD_GO: &str = r#"
package stdlib
func init() {
	paramA := types.NewTypeParamType("A")
	listOfA := types.NewListType(paramA)
	stdFunctions = []*decls.FunctionDecl{
		function(operators.Add,
			decls.Overload(overloads.Add, argTypes(listOfA, listOfA), listOfA),
			decls.Overload("add_int64", argTypes(types.IntType, types.IntType), types.IntType)),
		function(operators.Old,
			decls.DisableDeclaration(true),
			decls.Overload("old", argTypes(paramA), paramA)),
	}
}
func function(name string, opts ...decls.FunctionOpt) {}
"#;
const LISTS: &str = r#"
package library
var summable = []named{
	{typeName: "int", celType: cel.IntType},
	{typeName: "span", celType: cel.DurationType},
}
var listsLibraryDecls = map[string][]cel.FunctionOpt{
	"sum": templatedOverloads(summable, func(name string, paramType *cel.Type) cel.FunctionOpt {
		return cel.MemberOverload(fmt.Sprintf("list_%s_sum_%s", name, name),
			[]*cel.Type{cel.ListType(paramType)}, paramType, cel.UnaryBinding(sum()))
	}),
	"pick": {
		cel.Overload("pick", []*cel.Type{apiservercel.URLType}, cel.OptionalType(cel.BoolType)),
	},
}
func (*lists) CompileOptions() []cel.EnvOption {
	options = append(options, cel.Function(name, overloads...))
}
"#;
const STRINGS: &str = r#"
package ext
const quoted = "strings.quote"
func (lib *stringLib) CompileOptions() []cel.EnvOption {
	if lib.version >= 3 {
		opts = append(opts, cel.Function("new", cel.Overload("new", []*cel.Type{}, cel.BoolType)))
	} else {
		opts = append(opts, cel.Function(quoted, cel.Overload("old", []*cel.Type{}, cel.MapType(cel.StringType, cel.DynType))))
	}
	if lib.version >= 1 {
		more["trim"] = append(more["trim"], cel.MemberOverload("trim", []*cel.Type{cel.StringType}, cel.StringType))
	}
	templatedOverloads(types, func(t *cel.Type) cel.FunctionOpt { return nil })
	cel.Function("sort", templatedOverloads(comparable, func(t *cel.Type) cel.FunctionOpt {
		return cel.MemberOverload(fmt.Sprintf("list_%s_sort", t.TypeName()), []*cel.Type{cel.ListType(t)}, cel.ListType(t))
	}))
}
var comparable = []*cel.Type{cel.TimestampType}
var types = []*cel.Type{}
"#;
const FORMATS: &str = r#"
package library
var ConstantFormats = map[string]apiservercel.Format{
	"uuid": {Name: "UUID", Check: func(s string) []string { return []string{"x"} }},
	"date": {Name: "Date"},
}
var formatLibraryDecls = map[string][]cel.FunctionOpt{
	"named": {cel.Overload("format-named", []*cel.Type{cel.StringType}, apiservercel.FormatType)},
}
"#;
const TYPES: &str = r#"
package cel
var (
	URLType    = cel.ObjectType("kubernetes.URL")
	FormatType = cel.ObjectType("kubernetes.NamedFormat")
)
"#;

fn generated(base: &str) -> anyhow::Result<String> {
    let cel = |file: &str| format!("{CEL_GO}/{file}");
    let own = |file: &str| format!("{KUBERNETES}/{file}");
    let files = Files::with(&[
        (ENVIRONMENT, base),
        (&cel("common/stdlib/standard.go"), STANDARD_GO),
        (
            &cel("common/operators/operators.go"),
            "package operators\nconst (\n Add = \"_+_\"\n Old = \"old\"\n)",
        ),
        (
            &cel("common/overloads/overloads.go"),
            "package overloads\nconst Add = \"add_list\"",
        ),
        (&cel("ext/strings.go"), STRINGS),
        (&own("library/lists.go"), LISTS),
        (&own("library/format.go"), FORMATS),
        (&own("library/jsonpatch.go"), "package library"),
        (&own("types.go"), TYPES),
    ]);
    let server = Canned::default();
    let text = generate(&Inputs::of(&server, &files))?;
    let (_, lines) = text.split_once(FORMAT).unwrap();
    Ok(lines.to_owned())
}

#[test]
fn overloads_are_read_from_calls_maps_templates_and_loops() {
    let expected = "
# cel.StdLib
_+_             add_list(list(A), list(A)) -> list(A)
_+_             add_int64(int, int) -> int

# library.Lists
sum             .list_int_sum_int(list(int)) -> int
sum             .list_span_sum_span(list(duration)) -> duration
pick            pick(kubernetes.URL) -> optional(bool)

# ext.Strings
strings.quote   old() -> map(string, dyn)
trim            .trim(string) -> string
sort            .list_google.protobuf.Timestamp_sort(list(timestamp)) -> list(timestamp)

# library.Format
named           format-named(string) -> kubernetes.NamedFormat
format.uuid     format.uuid() -> kubernetes.NamedFormat
format.date     format.date() -> kubernetes.NamedFormat

# library.JSONPatch
";
    assert_eq!(generated(BASE).unwrap(), expected);
}

#[test]
fn a_library_that_is_not_known_is_an_error() {
    let error = generated(&BASE.replace("library.Lists", "library.Boats")).unwrap_err();
    assert_eq!(error.to_string(), "the library library.Boats is not known");
}
