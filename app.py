"""What the CDK command runs: `npx cdk deploy -c env=prod '**'`."""

import sys

from stacks.chosen_environment import environment_of_command
from stacks.synth import synthesize

sys.exit(synthesize(environment_of_command()))
