/**
 * The conformance suites: what every home and every store must do, domain by domain. They contain no test
 * runner; pass the functions of yours.
 */
export { dataStoreConformance as dataStore } from './datastore/conformance/index.js';
export type { ConformanceTarget, OpenOptions, RegisterTest } from './datastore/conformance/index.js';
export { registryConformance as registry, startMs } from './registry/conformance/index.js';
export type { OpenRegistry, RegistryBench, RegistryTarget } from './registry/conformance/index.js';
export { workspacesConformance as workspaces } from './workspaces/conformance/index.js';
export type { Bench, ChangeSeen, OpenBench } from './workspaces/conformance/index.js';
export { locksConformance as locks } from './locks/conformance/index.js';
export type { LocksBench, OpenLocks } from './locks/conformance/index.js';
export { MessagingServer, messagingConformance as messaging, roomy } from './messaging/conformance/index.js';
export type { Backend, MessagingServerOptions, MessagingServerStoa } from './messaging/conformance/index.js';
export type { Assertion, Expect, Matchers, TestRunner } from './core/test-runner.js';
export { findConformance as find } from './find/conformance/index.js';
export type { FindBench, FindTarget } from './find/conformance/index.js';
