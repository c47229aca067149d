/** Options of a server. */
export interface Options {
  /** The number of simulated nodes, on which pods run. 0 unless given. */
  nodes?: number;
  /** `all`, `none`, or names between commas. All unless given, and none with `fromLog`. */
  controllers?: string;
  /** Manifests, or directories of them, that are created before the server listens. */
  load?: string[];
  /** A log or snapshot with whose state the server starts. */
  fromLog?: string;
  /** Serve over TLS. */
  tls?: boolean;
  /** Ask for this bearer token. */
  token?: string;
  /** `real` for the durations of a cluster; `fast` unless given. */
  pace?: 'fast' | 'real';
  /** Further flags of `kubeproof serve`. */
  args?: string[];
  /** The program, instead of the one that `findProgram` finds. */
  program?: string;
  /** The longest time that a start may take, in milliseconds. 60,000 unless given. */
  startMilliseconds?: number;
}

/** A fault, in the form of a scenario's `fault` step. */
export interface Fault {
  name: string;
  on: { verb?: string; resource?: string; [key: string]: unknown };
  times?: number;
  refuse?: { code: number; reason?: string; [key: string]: unknown };
  [effect: string]: unknown;
}

/** What came of an import: the numbers of objects, those whose kind is not served, and warnings. */
export interface ImportResult {
  stored: number;
  unchanged: number;
  leftOut: string[];
  warnings: string[];
}

/** A value of a custom or external metric, in the form of a scenario's `metric` step. */
export interface MetricValue {
  name: string;
  value?: string;
  labels?: Record<string, string>;
  [field: string]: unknown;
}

/** A server in memory, on a free port of loopback. It ends with `stop`, and with Node, also when Node is killed. */
export class Kubeproof implements AsyncDisposable {
  /** Starts a server. The promise is fulfilled when it listens, and rejected with a `StartError` if it does not. */
  static start(options?: Options): Promise<Kubeproof>;
  /** The URL of the server. */
  readonly url: string;
  /** The path of a kubeconfig for the administrator. It goes with the server. */
  readonly kubeconfig: string;
  /** The client of the control endpoints: faults, clock, watches, state. */
  readonly control: Control;
  /** The number of the process. */
  readonly pid: number;
  /** What the server has written to standard error. */
  readonly output: string;
  /** Creates a namespace whose name begins with `prefix` (`test-` unless given), and returns the name. */
  createNamespace(prefix?: string): Promise<string>;
  /** Deletes a namespace. */
  deleteNamespace(name: string): Promise<void>;
  /** Ends the server, and deletes its kubeconfig. */
  stop(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/**
 * A client of the control endpoints, `/kubeproof/v1`. A `resource` is a plural with its group, such as `deployments.apps`;
 * without it a method applies to all resources. Promises are rejected with a `ControlError` if the server refuses the request.
 */
export class Control {
  constructor(url: string, options?: { token?: string; authority?: string });
  /** Forgets past events: a watch from an older version ends with 410 Expired. */
  compact(resource?: string): Promise<void>;
  /** Sends a bookmark to every watch that allows bookmarks. */
  bookmarkWatches(resource?: string): Promise<void>;
  /** Ends watches as if their time were up. */
  closeWatches(resource?: string): Promise<void>;
  /** Breaks the connections of watches. */
  dropWatches(resource?: string): Promise<void>;
  /** Ends watches with 410 Expired, so that clients list again. */
  expireWatches(resource?: string): Promise<void>;
  /** Does what clients see of a restart: watches break, past events are forgotten. */
  restart(): Promise<void>;
  /** Sets the clock forward by a duration such as `10m`, or back by a negative one. */
  jump(duration: string): Promise<void>;
  /**
   * Lets a duration such as `10h` pass at once, and resolves when all that happens in it has happened. The server has to run
   * under virtual time: `args: ['--virtual-time']`.
   */
  advance(duration: string): Promise<void>;
  /** Returns everything that is stored, one JSON object a line, as `fromLog` reads it. */
  snapshot(): Promise<string>;
  /**
   * Takes in all objects or none, and those with a uid and a version as they were in their cluster. With `replace` objects that
   * exist are replaced; without it they are an error.
   */
  importObjects(objects: Iterable<object>, options?: { replace?: boolean }): Promise<ImportResult>;
  /** Puts a value of a custom or external metric, or takes it away if it has no `value`. */
  putMetric(value: MetricValue): Promise<void>;
  /** Returns the values that were put. */
  metrics(): Promise<MetricValue[]>;
  /** Injects a fault. */
  inject(fault: Fault): Promise<void>;
  /** Lifts the faults of that name. */
  lift(name: string): Promise<void>;
  /** Returns all faults that were ever injected, with the number of requests that each has affected. */
  faults(): Promise<{ name: string; met: number }[]>;
  /** Lifts every fault that still acts. */
  liftAll(): Promise<void>;
  /** Injects a fault until `body` has ended. */
  withFault<T>(fault: Fault, body: () => Promise<T> | T): Promise<T>;
  /** Sends a request to any path of the server, with a body of JSON, and returns the body of the response. */
  request(method: string, path: string, body?: unknown): Promise<string>;
}

/** The server has refused a request: its message, and its HTTP status as `code`. */
export class ControlError extends Error {
  readonly code: number;
}

/** The server has ended, or has not listened in time. */
export class StartError extends Error {}

/** Returns the path of the program: `KUBEPROOF_BINARY`, that of the platform's package, or the first on the `PATH`. */
export function findProgram(): string;
