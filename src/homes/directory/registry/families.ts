/** The families of the registry: the seed's five families, and those that Stoa adds. */
export const registryFamilies = {
  // The seed's.
  agents: 'registry/agents',
  agentsByStatus: 'registry/agents_by_status',
  sessions: 'registry/sessions',
  sessionsByAgent: 'registry/sessions_by_agent',
  users: 'registry/users',
  // Agent to owner.
  agentsById: 'registry/agents_by_id',
  agentMeta: 'registry/agent_meta',
  agentsByName: 'registry/agents_by_name',
  agentsByLabel: 'registry/agents_by_label',
  sessionsByStatus: 'registry/sessions_by_status',
  leases: 'registry/leases',
  counts: 'registry/counts',
  // 32 bytes to readable id.
  userNames: 'registry/user_names',
  userSettings: 'registry/user_settings',
  identityLinks: 'registry/identity_links',
} as const;
