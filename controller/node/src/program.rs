//! The programs of known images that serve HTTP.

use k8s_openapi::api::core::v1::Container as Spec;

/// A program of an image that serves HTTP.
#[derive(Debug)]
pub(super) struct Known {
    /// A part of the image's name.
    pub(super) image: &'static str,
    /// The first argument with which it serves, if it has other uses.
    argument: Option<&'static str>,
    /// The port, unless its flag `port` names another.
    pub(super) port: u16,
    content: Content,
}

/// The kind of content that a program serves.
#[derive(Clone, Copy, Debug)]
enum Content {
    Files(&'static str),
    Hostname,
    Consumer,
    ConsumerController,
}

pub(super) const KNOWN: &[Known] = &[
    Known {
        image: "httpd",
        argument: None,
        port: 80,
        content: Content::Files("/usr/local/apache2/htdocs"),
    },
    Known {
        image: "nginx",
        argument: None,
        port: 80,
        content: Content::Files("/usr/share/nginx/html"),
    },
    // Kubernetes' own tests serve the root of the image's file system.
    Known {
        image: "agnhost",
        argument: Some("test-webserver"),
        port: 80,
        content: Content::Files(""),
    },
    Known {
        image: "agnhost",
        argument: Some("serve-hostname"),
        port: 9376,
        content: Content::Hostname,
    },
    Known {
        image: "agnhost",
        argument: Some("resource-consumer-controller"),
        port: 8080,
        content: Content::ConsumerController,
    },
    Known {
        image: "resource-consumer",
        argument: None,
        port: 8080,
        content: Content::Consumer,
    },
];

/// A container's program that serves HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Program {
    pub(super) port: u16,
    pub(super) serves: Serves,
}

/// The content that a program serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Serves {
    /// The files below a directory.
    Files(&'static str),
    /// The name of the host, at any path.
    Hostname,
    /// Uses what it is asked to use.
    Consumer,
    /// Spreads requests over the consumers behind a service.
    ConsumerController {
        /// The service's namespace.
        namespace: String,
        /// The service's name.
        name: String,
    },
}

impl Program {
    /// Returns the program of a container; `None` if its image is not known to serve HTTP.
    pub(super) fn of(spec: &Spec) -> Option<Self> {
        let image = spec.image.as_deref().unwrap_or_default();
        let words = spec.command.iter().chain(&spec.args).flatten();
        let mut words: Vec<&str> = words.map(String::as_str).collect();
        if words
            .first()
            .is_some_and(|first| matches!(*first, "agnhost" | "/agnhost"))
        {
            words.remove(0);
        }
        let known = KNOWN.iter().find(|known| {
            image.contains(known.image)
                && known.argument.is_none_or(|it| words.first() == Some(&it))
        })?;
        let text = |name: &str, default: &str| flag(&words, name).unwrap_or(default).to_owned();
        let port = flag(&words, "port").and_then(|port| port.parse().ok());
        Some(Self {
            port: port.unwrap_or(known.port),
            serves: match known.content {
                Content::Files(root) => Serves::Files(root),
                Content::Hostname => Serves::Hostname,
                Content::Consumer => Serves::Consumer,
                Content::ConsumerController => Serves::ConsumerController {
                    namespace: text("consumer-service-namespace", "default"),
                    name: text("consumer-service-name", "resource-consumer"),
                },
            },
        })
    }
}

/// Returns the value of a flag: `--NAME=VALUE`, `-NAME=VALUE` or `--NAME VALUE`.
fn flag<'a>(words: &[&'a str], name: &str) -> Option<&'a str> {
    words.iter().enumerate().find_map(|(at, word)| {
        let rest = word.strip_prefix('-')?;
        let rest = rest.strip_prefix('-').unwrap_or(rest);
        match rest.strip_prefix(name)? {
            "" => words.get(at + 1).copied(),
            rest => rest.strip_prefix('='),
        }
    })
}

#[cfg(test)]
mod tests {
    use kubeproof_machinery::json::json;
    use kubeproof_runtime::decode::from_value;

    use super::*;

    #[test]
    fn images_and_their_arguments_say_what_is_served() {
        let controller = |namespace: &str, name: &str| Serves::ConsumerController {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        for (image, words, expected) in [
            (
                "nginx:1",
                "",
                Some((80, Serves::Files("/usr/share/nginx/html"))),
            ),
            ("busybox", "sh", None),
            ("agnhost:2", "netexec", None),
            (
                "agnhost:2",
                "/agnhost serve-hostname",
                Some((9376, Serves::Hostname)),
            ),
            (
                "agnhost:2",
                "serve-hostname --http --port 81",
                Some((81, Serves::Hostname)),
            ),
            (
                "e2e-test-images/resource-consumer:1.13",
                "/consumer -port=8081",
                Some((8081, Serves::Consumer)),
            ),
            (
                "agnhost",
                "/agnhost resource-consumer-controller --consumer-service-name=web \
                 --consumer-service-namespace=ns --consumer-port=80",
                Some((8080, controller("ns", "web"))),
            ),
            (
                "agnhost",
                "resource-consumer-controller",
                Some((8080, controller("default", "resource-consumer"))),
            ),
        ] {
            let words: Vec<&str> = words.split_whitespace().collect();
            let spec = json!({"name": "c", "image": image, "args": words});
            let program = Program::of(&from_value(spec).unwrap());
            let expected = expected.map(|(port, serves)| Program { port, serves });
            assert_eq!(program, expected, "{image} {words:?}");
        }
    }
}
