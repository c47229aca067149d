//! The HTTP servers of images, for probes and port-forward.

use k8s_openapi::api::core::v1::{Container as Spec, HTTPGetAction};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::container::{Container, is_program};
use super::image::Image;
use super::program::{KNOWN, Program, Serves};

/// Content types by the suffix of a file's name.
const CONTENT_TYPES: &[(&str, &str)] = &[
    (".css", "text/css"),
    (".html", "text/html"),
    (".js", "application/javascript"),
    (".json", "application/json"),
    (".txt", "text/plain"),
];

/// Programs that may start the image's own program.
const SHELLS: &[&str] = &["ash", "bash", "sh"];

/// The error of a connection to a port without a listener.
pub const REFUSED: &str = "connect: connection refused";

/// The HTTP server of a container.
#[derive(Clone, Debug, Default)]
pub(super) struct Server {
    program: Option<Program>,
    /// The ports in the container's spec: number and name.
    declared: Vec<(i32, Option<String>)>,
    /// The other ports on which it listens; `None` if only its image knows them.
    others: Option<Vec<i32>>,
}

/// The response of a server to a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The code of an HTTP response.
    Status(u16),
    /// No program listens on the port.
    Refused,
}

/// The HTTP response of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The status code.
    pub status: u16,
    /// The `Content-Type`.
    pub content_type: &'static str,
    /// The body.
    pub body: Vec<u8>,
}

impl Server {
    pub(super) fn of(spec: &Spec) -> Self {
        let declared = spec.ports.iter().flatten();
        let declared = declared.map(|port| (port.container_port, port.name.clone()));
        Self {
            program: Program::of(spec),
            declared: declared.collect(),
            others: others(spec),
        }
    }

    /// Returns whether a probe finds a listener on a port. A container listens on its declared
    /// ports, and on every port if its program is known only to the image or to a script.
    pub(super) fn listens_on(&self, port: &IntOrString) -> bool {
        match port {
            IntOrString::String(name) => {
                let mut declared = self.declared.iter();
                declared.any(|(_, own)| own.as_ref() == Some(name))
            }
            IntOrString::Int(0) => false,
            IntOrString::Int(port) => {
                let is_declared = self.declared.iter().any(|(own, _)| own == port);
                let others = self.others.as_ref();
                is_declared || others.is_none_or(|ports| ports.contains(port))
            }
        }
    }

    /// Returns the ports of a container that runs `argv`: those of its spec, and its image's own
    /// unless another program runs.
    pub(super) fn ports(&self, spec: &Spec, argv: &[String]) -> Vec<u16> {
        let declared = spec.ports.iter().flatten();
        let declared = declared.filter(|port| port.protocol.as_deref().unwrap_or("TCP") == "TCP");
        let mut ports: Vec<u16> = declared
            .filter_map(|port| u16::try_from(port.container_port).ok())
            .collect();
        let program = argv.first().map(|program| program.rsplit('/').next());
        let program = program.flatten().unwrap_or_default();
        let is_own = SHELLS.contains(&program) || !is_program(program);
        let own = self.program.as_ref().filter(|_| is_own);
        ports.extend(own.map(|program| program.port));
        ports
    }

    /// Answers a GET with the container's files.
    pub(super) fn get(&self, get: &HTTPGetAction, container: &Container) -> Answer {
        // Another host is taken to listen on every port.
        let is_own = get.host.as_deref().is_none_or(str::is_empty);
        if is_own && !self.listens_on(&get.port) {
            return Answer::Refused;
        }
        let path = get.path.as_deref().unwrap_or("/");
        match self.file(path, container) {
            // An image that is not known to serve files is taken to serve every path.
            None | Some(Some(_)) => Answer::Status(200),
            Some(None) => Answer::Status(404),
        }
    }

    /// Returns what the program of the image serves; `None` if that is not known.
    pub(super) fn serves(&self) -> Option<&Serves> {
        self.program.as_ref().map(|program| &program.serves)
    }

    /// Returns the file at `path` as a response, if the image serves files.
    pub(super) fn page(&self, path: &str, container: &Container) -> Page {
        let file = self.file(path, container).flatten();
        let content = file.and_then(|file| Some((container.files.read(&file).ok()?, file)));
        match content {
            Some((body, file)) => {
                let mut types = CONTENT_TYPES.iter();
                let found = types.find(|(end, _)| file.ends_with(end));
                Page {
                    status: 200,
                    content_type: found.map_or("application/octet-stream", |(_, kind)| kind),
                    body,
                }
            }
            None => Page {
                status: 404,
                content_type: "text/html",
                body: b"<html><body><h1>404 Not Found</h1></body></html>\n".to_vec(),
            },
        }
    }

    /// Returns the file served at `path`; `None` if the image is not known to serve files.
    fn file(&self, path: &str, container: &Container) -> Option<Option<String>> {
        let Some(Serves::Files(root)) = self.serves() else {
            return None;
        };
        let path = path.split('?').next().unwrap_or_default();
        let mut file = format!("{root}/{path}");
        let files = &container.files;
        if files.is_directory(&file) {
            file.push_str("/index.html");
        }
        let is_below = path.split('/').all(|part| part != "..");
        Some((is_below && files.exists(&file)).then_some(file))
    }
}

/// Returns the ports on which a container listens without declaring them; `None` if they are not
/// known.
fn others(spec: &Spec) -> Option<Vec<i32>> {
    let mut words = spec.command.iter().chain(&spec.args).flatten();
    if let Some(program) = words.next() {
        // A shell may start any program, and `nc` may listen.
        let name = program.rsplit('/').next().unwrap_or_default();
        let is_idle = is_program(program) && !SHELLS.contains(&name) && name != "nc";
        return is_idle.then(Vec::new);
    }
    let mut mounts = spec.volume_mounts.iter().flatten();
    let is_configured = mounts.any(|mount| mount.mount_path.starts_with("/etc/"));
    let image = Image::parse(spec.image.as_deref().unwrap_or_default()).ok()?;
    let mut known = KNOWN.iter().filter(|_| !is_configured);
    let known = known.find(|known| known.image == image.name())?;
    Some(vec![i32::from(known.port)])
}

#[cfg(test)]
mod tests {
    use kubeproof_machinery::json::{Value, json};
    use kubeproof_runtime::decode::from_value;

    use super::*;

    #[test]
    fn declared_ports_are_open_and_those_of_the_images_own_program() {
        for (image, ports, argv, open) in [
            ("nginx", json!([]), "", vec![80]),
            (
                "nginx:1",
                json!([{"containerPort": 8080}]),
                "nginx -g x",
                vec![8080, 80],
            ),
            ("httpd", json!([]), "sh -c x", vec![80]),
            ("nginx", json!([]), "/bin/sleep 9", vec![]),
            ("agnhost", json!([]), "test-webserver", vec![80]),
            ("agnhost", json!([]), "netexec", vec![]),
            (
                "busybox",
                json!([{"containerPort": 53, "protocol": "UDP"}]),
                "",
                vec![],
            ),
        ] {
            let spec: Spec = from_value(json!({"name": "c", "image": image, "ports": ports,
                    "args": argv.split_whitespace().collect::<Vec<_>>()}))
            .unwrap();
            let argv: Vec<String> = argv.split_whitespace().map(str::to_owned).collect();
            assert_eq!(
                Server::of(&spec).ports(&spec, &argv),
                open,
                "{image} {argv:?}"
            );
        }
    }

    fn open(spec: Value, ports: &[IntOrString]) -> Vec<bool> {
        let server = Server::of(&from_value(spec).unwrap());
        let open = ports.iter().map(|port| server.listens_on(port));
        open.collect()
    }

    #[test]
    fn a_port_is_open_where_somebody_listens() {
        let named = |name: &str| IntOrString::String(name.to_owned());
        let asked = [
            IntOrString::Int(80),
            IntOrString::Int(8081),
            IntOrString::Int(0),
            named("web"),
            named(""),
        ];
        let mounts = json!([{ "name": "conf", "mountPath": "/etc/nginx/conf.d" }]);
        let ports = json!([{ "containerPort": 8081, "name": "web" }]);
        for (spec, expected) in [
            (
                json!({ "name": "c", "image": "nginx" }),
                [true, false, false, false, false],
            ),
            (
                json!({ "name": "c", "image": "nginx", "ports": ports }),
                [true, true, false, true, false],
            ),
            // A configured image may listen anywhere.
            (
                json!({ "name": "c", "image": "nginx", "volumeMounts": mounts }),
                [true, true, false, false, false],
            ),
            (
                json!({ "name": "c", "image": "nginx", "command": ["sleep", "1h"] }),
                [false, false, false, false, false],
            ),
            (
                json!({ "name": "c", "image": "busybox", "args": ["sleep", "1h"], "ports": ports }),
                [false, true, false, true, false],
            ),
            // The port is known only to the image, or to the script.
            (
                json!({ "name": "c", "image": "nginxinc/nginx-unprivileged" }),
                [true, true, false, false, false],
            ),
            (
                json!({ "name": "c", "image": "example.com/shop" }),
                [true, true, false, false, false],
            ),
            (
                json!({ "name": "c", "image": "nginx", "command": ["sh", "-c", "serve"] }),
                [true, true, false, false, false],
            ),
        ] {
            assert_eq!(open(spec.clone(), &asked), expected, "{spec}");
        }
    }
}
