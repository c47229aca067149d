# A controller with kubectl: each ConfigMap with the label claim=port gets a port number of its own.

next_port() {
  kubectl get configmap ports --output=jsonpath='{.data.next}'
}

while sleep 0.2; do
  for claim in $(kubectl get configmaps --selector=claim=port,!granted --output=name); do
    port=$(next_port) || continue
    kubectl patch "$claim" --type=merge --patch="{\"data\":{\"port\":\"$port\"},\"metadata\":{\"labels\":{\"granted\":\"yes\"}}}"
    # A crash here, and the next claim gets the same port.
    kubectl patch configmap ports --type=merge --patch="{\"data\":{\"next\":\"$((port + 1))\"}}"
  done
done
